"""Who follows whom: `--after`, driven through `step`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.events import calls_during
from radrm.core.records import Dependency, Job
from radrm.core.words import Condition, JobState
from tests.world import GIB, World, gpus

OK, ANY, FAILED = Condition.OK, Condition.ANY, Condition.FAILED


def after(job: Job, condition: Condition = OK) -> list[Dependency]:
    return [Dependency(job.id, condition)]


@pytest.mark.parametrize(
    "condition, end, follows",
    [
        (OK, "completes", True),
        (OK, "fails", False),
        (OK, "is cancelled", False),
        (ANY, "completes", True),
        (ANY, "fails", True),
        (ANY, "is cancelled", True),
        (FAILED, "completes", False),
        (FAILED, "fails", True),
        (FAILED, "is cancelled", True),
    ],
)
def test_a_job_follows_as_its_condition_says(condition: Condition, end: str, follows: bool) -> None:
    world = World()
    first = world.submit(GIB)
    second = world.submit(GIB, after=after(first, condition))
    assert world.state(second) is JobState.PENDING
    assert world.why(second) == ["dependency"]
    if end == "is cancelled":
        world.cancel(first)
    else:
        world.end(first, 0 if end == "completes" else 1)
    if follows:
        assert world.state(second) is JobState.RUNNING
        assert world.jobs[second.id].after == ()
    else:
        job = world.jobs[second.id]
        assert (job.state, job.started, job.outcome) == (JobState.FAILED, None, None)
        assert first.spec.name in job.reason


def test_what_cannot_follow_takes_its_own_followers_along_and_lets_others_go() -> None:
    world = World()
    first = world.submit(GIB)
    second = world.submit(GIB, after=after(first))
    third = world.submit(GIB, after=after(second))
    mourner = world.submit(GIB, after=after(third, FAILED))
    world.end(first, 1)
    assert [world.state(j) for j in (second, third)] == [JobState.FAILED] * 2
    assert world.state(mourner) is JobState.RUNNING


def test_all_must_be_met() -> None:
    world = World(gpus(1))
    jobs = [world.submit(GIB, smact=0.1) for _ in range(3)]
    last = world.submit(GIB, after=[Dependency(j.id, OK) for j in jobs])
    for job in jobs[::-1]:
        assert world.state(last) is JobState.PENDING
        world.end(job)
    assert world.state(last) is JobState.RUNNING
    assert world.jobs[last.id].after == ()
    assert {d.job_id for d in world.jobs[last.id].followed} == {j.id for j in jobs}


def test_a_retry_or_a_recovery_is_not_an_end() -> None:
    world = World(gpus(1))
    first = world.submit(GIB, retries=1)
    second = world.submit(GIB, after=after(first, FAILED))
    world.end(first, 1)
    assert world.state(second) is JobState.PENDING
    world.pass_time(world.settings.retry_s)
    world.end(first, 1)
    assert world.state(second) is JobState.RUNNING


def test_a_blocked_job_keeps_nobody_waiting() -> None:
    world = World(gpus(1))
    first = world.submit(GIB, smact=0.1)
    world.submit(GIB, priority=9, after=after(first))
    third = world.submit(GIB, smact=0.1)
    assert world.state(third) is JobState.RUNNING


def test_an_array_is_followed_as_a_whole() -> None:
    world = World()
    elements = world.submit_array(3, GIB, smact=0.1)
    whole = [Dependency(elements[0].id, OK, array=True)]
    follower = world.submit(GIB, after=whole)
    for element in elements:
        assert world.state(follower) is JobState.PENDING
        world.end(element)
    assert world.state(follower) is JobState.RUNNING


def test_one_bad_element_is_enough() -> None:
    world = World()
    elements = world.submit_array(3, GIB, smact=0.1)
    follower = world.submit(GIB, after=[Dependency(elements[0].id, OK, array=True)])
    world.end(elements[1], 1)
    assert world.state(follower) is JobState.FAILED


def test_dependencies_survive_a_restart() -> None:
    world = World()
    first = world.submit(GIB)
    elements = world.submit_array(2, GIB, smact=0.1)
    second = world.submit(GIB, after=after(first))
    third = world.submit(GIB, after=[Dependency(elements[0].id, ANY, array=True)])
    world.restart()
    world.end(first)
    world.end(elements[0])
    assert world.state(second) is JobState.RUNNING
    assert world.state(third) is JobState.PENDING
    world.end(elements[1])
    assert world.state(third) is JobState.RUNNING


def test_nobody_is_made_to_wait_for_himself() -> None:
    world = World(gpus(1))
    world.submit(30 * GIB, smact=0.9)
    first = world.submit(GIB)
    second = world.submit(GIB, after=after(first))
    third = world.submit(GIB, after=after(second))
    for wished in (first, second, third):
        refusal = world.edit(first, after=after(wished))
        assert "wait for itself" in refusal
        assert world.jobs[first.id].after == ()
    assert world.edit(third, after=after(first)) is None
    assert world.jobs[third.id].after == (Dependency(first.id, OK),)


@given(
    edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20),
    fails=st.sets(st.integers(0, 7)),
)
def test_whatever_follows_whatever_everybody_ends(
    edges: list[tuple[int, int]], fails: set[int]
) -> None:
    """Edges to earlier jobs; every job ends, and none ran before what it follows."""
    world = World(gpus(2))
    jobs: list[Job] = []
    for number in range(8):
        earlier = {a for b, a in edges if b == number and a < number}
        wanted = [Dependency(jobs[a].id, OK) for a in sorted(earlier) if world.live(jobs[a])]
        wanted += [
            Dependency(jobs[a].id, OK)
            for a in sorted(earlier)
            if world.state(jobs[a]) is JobState.PENDING
        ]
        jobs.append(world.submit(GIB, smact=0.1, after=wanted))
        for dependency in wanted:
            assert world.live(jobs[number]) is None, f"before job {dependency.job_id}"
    while running := [j for j in jobs if world.live(j)]:
        world.end(running[0], int(jobs.index(running[0]) in fails))
    assert all(world.state(j).final for j in jobs)
    assert not world.scheduler.state.jobs


def test_an_elements_end_costs_the_same_however_many_follow_its_array() -> None:
    def cost(followers: int) -> int:
        world = World(gpus(1))
        elements = world.submit_array(3, GIB, smact=0.1)
        whole = [Dependency(elements[0].id, OK, array=True)]
        for _ in range(followers):
            world.submit(GIB, after=whole)
        return calls_during(lambda: world.end(elements[0]))

    assert cost(500) <= 1.2 * cost(5)
