"""Small jobs first, within a bound: nobody is passed by jobs that come much later."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import (
    Dependency,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Needs,
    Progress,
    Requeued,
    Role,
)
from radrm.core.rules import Order
from radrm.core.settings import CoreSettings
from radrm.core.state import timers
from radrm.core.words import Condition, JobState, Quantity
from radrm.orders import Ageing, Shortest, SmallestWork
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.examples import some
from tests.world import GIB, World, gpus

HOUR_S = 3600.0
NOW = Instant(50_000.0, 1_700_000_000.0)


def job_of(
    job_id: int = 1,
    duration_s: float | None = None,
    smact: float | None = None,
    count: int = 1,
    age_s: float = 0.0,
    limit_s: float | None = None,
) -> Job:
    known = [(Quantity.DURATION, duration_s), (Quantity.SMACT, smact)]
    then = Instant(NOW.boot_s - age_s, NOW.wall_s - age_s)
    roles = (Role(needs=Needs(gpus=count)),)
    return Job(
        id=job_id,
        ticket=f"T{job_id}",
        spec=JobSpec(name="a", user="ann", uid=1000, roles=roles, time_limit_s=limit_s),
        submitted=then,
        estimates=tuple(Estimate(q, v, v, "test") for q, v in known if v is not None),
    )


SIZES = [
    # order, job, expected size
    (Shortest(), job_of(duration_s=600), 600),
    (Shortest(), job_of(), 3600),
    (Shortest(unknown_duration_s=60), job_of(), 60),
    (Shortest(), job_of(limit_s=900), 900),
    (Shortest(), job_of(duration_s=600, limit_s=300), 300),
    (Shortest(), job_of(duration_s=600, count=4, smact=0.1), 600),
    (SmallestWork(), job_of(duration_s=600, count=4, smact=0.5), 1200),
    (SmallestWork(), job_of(duration_s=600, count=2), 1200),
    (SmallestWork(unknown_smact=0.25), job_of(duration_s=600, count=2), 300),
    (SmallestWork(), job_of(duration_s=600, count=0, smact=0.5), 300),
    (SmallestWork(wide_weight=0.5), job_of(duration_s=600, count=2, smact=0.6), 360),
    (SmallestWork(wide_weight=0.0), job_of(duration_s=600, count=2, smact=0.6), 0),
    # One GPU could do its work, or nobody knows: a second one must not bring it forward.
    (SmallestWork(wide_weight=0.5), job_of(duration_s=600, count=2, smact=0.5), 600),
    (SmallestWork(wide_weight=0.5), job_of(duration_s=600, count=2), 1200),
    (SmallestWork(wide_weight=2.0), job_of(duration_s=600, count=2, smact=0.5), 1200),
    (SmallestWork(wide_weight=0.5), job_of(duration_s=600, smact=1.0), 600),
]


@pytest.mark.parametrize(("order", "job", "size"), SIZES)
def test_the_size_of_a_job(order: Ageing, job: Job, size: float) -> None:
    assert order.size(job) == size


@pytest.mark.parametrize(("done", "left_s"), [(0.75, 150), (None, 600), (1.0, 0), (7.0, 0)])
def test_work_that_is_saved_does_not_count_again(done: float | None, left_s: float) -> None:
    saved = Progress(at=NOW, work_done=done)
    assert Shortest().size(replace(job_of(duration_s=600), saved=saved)) == left_s


@pytest.mark.parametrize("weight", [0.0, 0.15, 1.0, 3.0])
@given(smact=st.floats(0.001, 0.999), count=st.integers(2, 8))
def test_gpus_that_stay_idle_never_bring_a_job_forward(
    weight: float, smact: float, count: int
) -> None:
    """The readings of its GPUs show the mean activity."""
    order = SmallestWork(wide_weight=weight)
    narrow = order.size(job_of(duration_s=600, smact=smact))
    wide = order.size(job_of(duration_s=600, smact=smact / count, count=count))
    assert wide >= narrow * (1 - 1e-9)


def test_a_job_is_old_at_the_second_that_it_names() -> None:
    order, job = Shortest(max_wait_s=HOUR_S), job_of(age_s=600)
    assert order.changes_s(job, NOW) == NOW.boot_s + 3000
    then = Instant(NOW.boot_s + 3000, NOW.wall_s + 3000)
    assert order.key(job, NOW)[0] == 1
    assert order.key(job, then)[0] == 0
    assert order.changes_s(job, then) is None


def test_a_requeued_job_is_as_old_as_its_requeue_and_a_reboot_does_not_matter() -> None:
    order, job = Shortest(max_wait_s=HOUR_S), job_of(age_s=2 * HOUR_S)
    assert order.changes_s(job, NOW) is None
    again = replace(job, requeued=Requeued(replace(NOW), behind=9))
    assert order.changes_s(again, NOW) == NOW.boot_s + HOUR_S
    booted = Instant(10.0, NOW.wall_s + 600)
    assert order.changes_s(again, booted) == 10.0 + HOUR_S - 600


def test_the_bound_is_told() -> None:
    order = SmallestWork(max_wait_s=HOUR_S)
    at = order.site_zone.clock(NOW.wall_s + 3000, NOW.wall_s)
    assert order.bound(job_of(age_s=600), NOW) == f"smaller jobs may start first until {at}"
    told = Shortest(max_wait_s=HOUR_S).bound(job_of(age_s=600), NOW)
    assert told == f"shorter jobs may start first until {at}"
    old = job_of(age_s=HOUR_S)
    waited = "it has waited for max_wait_s (1h00m), so no younger job"
    assert Shortest(max_wait_s=HOUR_S).bound(old, NOW) == f"{waited} passes it"
    assert order.bound(old, NOW) == f"{waited} of its user passes it"


# ------------------------------------------------------------------ in the queue


def submitted(world: World, duration_s: float, **more: object) -> Job:
    """A job of this predicted duration."""
    job = world.submit(estimating=True, **more)
    known = ((Quantity.MEMORY, GIB), (Quantity.DURATION, duration_s))
    estimates = tuple(Estimate(quantity, value, value, "test") for quantity, value in known)
    world.step(ev.EstimateReady(at=world.now, job_id=job.id, estimates=estimates))
    return world.jobs[job.id]


def busy(order: Order, count: int = 1) -> World:
    """A server whose GPUs all run a job."""
    world = World(gpus(count), policy=Exclusive(), order=order)
    for _ in range(count):
        world.submit(GIB)
    return world


def line(world: World) -> list[int]:
    return list(world.scheduler.state.lines.gpu)


def test_the_shortest_is_next_until_another_one_is_old() -> None:
    world = busy(Shortest(max_wait_s=HOUR_S))
    long = submitted(world, 9 * HOUR_S)
    world.pass_time(600)
    short = submitted(world, 60)
    assert line(world) == [short.id, long.id]
    assert world.why(long)[-1] == "bound"
    world.pass_time(2999)
    assert line(world) == [short.id, long.id]
    world.pass_time(1)
    assert line(world) == [long.id, short.id]
    world.restart()
    assert line(world) == [long.id, short.id]


def test_a_restart_keeps_the_time_at_which_a_job_is_old() -> None:
    world = busy(Shortest(max_wait_s=HOUR_S))
    long, short = submitted(world, 9 * HOUR_S), submitted(world, 60)
    world.restart()
    assert line(world) == [short.id, long.id]
    world.pass_time(HOUR_S)
    assert line(world) == [long.id, short.id]


def test_a_job_that_is_old_starts_at_once_if_it_can() -> None:
    """Nothing else happens at that time: the planners are called because it is first now."""
    order = Shortest(max_wait_s=HOUR_S)
    core = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9)
    world = World(gpus(2), policy=Exclusive(), order=order, settings=core)
    world.submit(GIB)
    single = world.submit(GIB, after=[Dependency(1, Condition.OK)])
    world.pass_time(1)
    wide = submitted(world, 60, gpus=2)
    world.edit(single, after=())
    assert line(world) == [wide.id, single.id]
    world.boot_s += HOUR_S - 1
    world.step(ev.Tick(at=world.now))
    assert world.state(single) is JobState.RUNNING


def test_elements_of_an_array_grow_old_too() -> None:
    world = busy(Shortest(max_wait_s=HOUR_S))
    elements = world.submit_array(3, GIB, at_once=1)
    world.pass_time(HOUR_S)
    short = submitted(world, 1)
    assert line(world) == [elements[0].id, short.id]


def test_thousands_that_grow_old_at_once_cost_several_steps() -> None:
    world = busy(Shortest(max_wait_s=HOUR_S))
    state = world.scheduler.state
    most = timers._MOST_AT_ONCE
    jobs = [world.submit(GIB) for _ in range(most + 10)]
    world.boot_s += HOUR_S
    decision = world.decide(ev.Tick(at=world.now))
    assert decision.wake_at <= world.boot_s
    decision = world.decide(ev.Tick(at=world.now))
    assert decision.wake_at is None or decision.wake_at > world.boot_s
    assert line(world) == [job.id for job in jobs] and not state.queue._changes_s


@dataclass(frozen=True)
class Move:
    """Submit a job, let one end, or let time pass."""

    kind: str
    amount: float


moves = st.lists(
    st.one_of(
        st.builds(Move, st.just("submit"), st.floats(1, 1e6)),
        st.builds(Move, st.just("end"), st.just(0.0)),
        st.builds(Move, st.just("time"), st.floats(0.1, 900)),
        st.builds(Move, st.just("restart"), st.just(0.0)),
    ),
    min_size=5,
    max_size=50,
)


@settings(max_examples=some(60))
@given(moves=moves, order=st.sampled_from([Shortest(max_wait_s=900), SmallestWork(max_wait_s=900)]))
def test_no_job_is_passed_by_one_that_came_much_later(moves: list[Move], order: Ageing) -> None:
    world = busy(order, 2)
    for move in moves:
        if move.kind == "submit":
            submitted(world, move.amount)
        elif move.kind == "time":
            world.pass_time(move.amount)
        elif move.kind == "restart":
            world.restart()
        else:
            running = [a.job_id for a in world.attempts.values() if a.ended is None]
            if running:
                world.end(running[0])
        waiting = [world.jobs[i] for i in line(world)]
        for place, job in enumerate(waiting):
            age_s = world.boot_s - job.submitted.boot_s
            for before in waiting[:place]:
                later_s = before.submitted.boot_s - job.submitted.boot_s
                assert later_s <= order.max_wait_s + 1e-3
                assert before.id < job.id or age_s < order.max_wait_s + 1e-3, "it is old"
