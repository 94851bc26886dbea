"""Which jobs fail when others are cancelled: foretold, and then seen to happen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import ArrayElement, Dependency, Instant, Job, JobSpec
from radrm.core.words import Condition, JobState
from radrm.daemon.answers.commands import Followers

AT = Instant(boot_s=0.0, wall_s=0.0)
OK, ANY, FAILED = Condition.OK, Condition.ANY, Condition.FAILED


def job(number: int, *after: Dependency, array: int | None = None, live: bool = False) -> Job:
    spec = JobSpec(name=f"job-{number}", user="ada", uid=1)
    place = None if array is None else ArrayElement(array, number - array, None)
    state = JobState.RUNNING if live else JobState.PENDING
    return Job(number, "", spec, AT, state=state, after=after, array=place)


def ids(*jobs: Job, cancelled: tuple[int, ...]) -> dict[int, list[int]]:
    followers = Followers({j.id: j for j in jobs}.get, cancelled)
    for each in jobs:
        followers.note(each)
    found = followers.failing_with(cancelled)
    return {number: [j.id for j in hit] for number, hit in found.items()}


def test_those_that_want_it_to_complete_and_those_that_follow_them() -> None:
    jobs = [
        job(1, live=True),
        job(2, Dependency(1, OK)),
        job(3, Dependency(1, ANY)),
        job(4, Dependency(2, OK)),
        job(5, Dependency(2, FAILED)),
        job(6, Dependency(1, FAILED)),
        job(7, Dependency(3, OK)),
        job(8),
    ]
    assert ids(*jobs, cancelled=(1,)) == {1: [2, 4]}, "6 wants a failure, and that is one"
    assert ids(*jobs, cancelled=(8,)) == {}
    assert ids(*jobs, cancelled=(99,)) == {}


def test_each_is_named_once_and_those_that_are_cancelled_too_not_at_all() -> None:
    jobs = [job(1), job(2), job(3, Dependency(1, OK), Dependency(2, OK)), job(4, Dependency(3, OK))]
    assert ids(*jobs, cancelled=(1, 2)) == {1: [3, 4]}
    assert ids(*jobs, cancelled=(2, 3, 2)) == {3: [4]}


def test_an_element_takes_those_along_that_follow_its_array() -> None:
    elements = [job(10, array=10), job(11, array=10)]
    after_all = job(20, Dependency(10, OK, array=True))
    after_one = job(21, Dependency(11, OK))
    assert ids(*elements, after_all, after_one, cancelled=(10,)) == {10: [20]}
    assert ids(*elements, after_all, after_one, cancelled=(11,)) == {11: [20, 21]}


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(Condition)), max_size=12))
def test_any_tangle_ends(links: list[tuple[int, Condition]]) -> None:
    """Cycles cannot be submitted; here they are, and nobody goes round in them."""
    jobs = [job(n, *(Dependency(m, c) for m, c in links[n::10])) for n in range(10)]
    found = ids(*jobs, cancelled=(0, 1))
    named = [n for hit in found.values() for n in hit]
    assert len(named) == len(set(named)) and not set(named) & {0, 1}
