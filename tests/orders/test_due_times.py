"""Orders by due times and weights: their keys, and the queue that they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Estimate, Instant, Job, JobSpec, Progress
from radrm.core.rules import Order
from radrm.core.words import Quantity
from radrm.orders import Due, LatestStart, Weight
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.world import GIB, World, gpus

NOW = Instant(50_000.0, 1_700_000_000.0)
DUE_S = NOW.wall_s + 3600.0


def job_of(
    job_id: int,
    due_s: float | None = None,
    duration_s: float | None = None,
    limit_s: float | None = None,
    saved: float | None = None,
    weight: float = 1.0,
) -> Job:
    spec = JobSpec(name="a", user="ann", uid=1000, due_s=due_s, weight=weight, time_limit_s=limit_s)
    known = () if duration_s is None else (duration_s,)
    return Job(
        id=job_id,
        ticket=f"T{job_id}",
        spec=spec,
        submitted=NOW,
        estimates=tuple(Estimate(Quantity.DURATION, s, 2 * s, "test") for s in known),
        saved=None if saved is None else Progress(NOW, work_done=saved),
    )


LINES = [
    # order, jobs in the order of service
    (Due(), [job_of(3, DUE_S), job_of(1, DUE_S + 1), job_of(2)]),
    (Due(), [job_of(2, DUE_S, 9000), job_of(3, DUE_S, 60), job_of(1), job_of(4)]),
    (Due(), [job_of(2, -5.0), job_of(1, 0.0), job_of(3)]),
    (LatestStart(), [job_of(3, DUE_S, 600), job_of(1, DUE_S, 60), job_of(2, None, 9000)]),
    (LatestStart(), [job_of(1, DUE_S, limit_s=60), job_of(2, DUE_S)]),
    (LatestStart(), [job_of(2, DUE_S, 600), job_of(1, DUE_S, 600, limit_s=60)]),
    (LatestStart(), [job_of(2, DUE_S, 600), job_of(1, DUE_S, 600, saved=0.5)]),
    (LatestStart(), [job_of(2, DUE_S + 540, 600), job_of(3, DUE_S + 540, 600), job_of(1, DUE_S)]),
    (Weight(), [job_of(3, weight=2.5), job_of(1), job_of(2), job_of(4, DUE_S, weight=0.1)]),
]


@pytest.mark.parametrize(("order", "jobs"), LINES)
def test_the_order_of_service(order: Order, jobs: list[Job]) -> None:
    mixed = jobs[::-1]
    assert sorted(mixed, key=lambda job: order.key(job, NOW)) == jobs


jobs = st.builds(
    job_of,
    job_id=st.integers(1, 99),
    due_s=st.none() | st.floats(0, 4e9),
    duration_s=st.none() | st.floats(1, 1e6),
    limit_s=st.none() | st.floats(1, 1e6),
    saved=st.none() | st.floats(0, 1),
    weight=st.floats(1e-6, 1e6),
)


@given(jobs, st.floats(0, 1e7))
def test_a_key_is_static(job: Job, later_s: float) -> None:
    then = Instant(NOW.boot_s + later_s, NOW.wall_s + later_s)
    for order in (Due(), LatestStart(), Weight()):
        assert order.key(job, NOW) == order.key(job, then)
        assert order.changes_s(job, NOW) is None


@given(jobs, jobs)
def test_a_job_without_a_due_time_never_passes_one_with_it(first: Job, second: Job) -> None:
    other = replace(second, spec=replace(second.spec, due_s=None))
    for order in (Due(), LatestStart()):
        if first.spec.due_s is not None:
            assert order.key(first, NOW) < order.key(other, NOW)


def test_an_edited_due_time_changes_the_place_and_the_reason_names_who_may_pass() -> None:
    world = World(gpus(1), policy=Exclusive(), order=Due())
    world.submit(GIB)
    first, second = world.submit(GIB, due_s=DUE_S), world.submit(GIB, due_s=DUE_S + 60)
    line = world.scheduler.state.lines
    assert list(line.gpu) == [first.id, second.id]
    assert world.why(second)[-1] == "bound"
    world.edit(second, due_s=DUE_S - 60)
    assert list(line.gpu) == [second.id, first.id]
    world.restart()
    assert list(world.scheduler.state.lines.gpu) == [second.id, first.id]


def test_the_bound_says_who_may_pass() -> None:
    assert Due().bound(job_of(1), NOW) == LatestStart().bound(job_of(1), NOW)
    assert "due earlier" in (Due().bound(job_of(1, DUE_S), NOW) or "")
    assert Weight().bound(job_of(1, weight=2.5), NOW) == "jobs of a weight above 2.5 may pass it"
