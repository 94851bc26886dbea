"""Who may use a reserved device, and when: through `step`."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.records import Estimate
from radrm.core.words import Collocation, JobState, Quantity
from radrm.planners.backfill import Backfill
from radrm.planners.deadline import Deadline
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm, RoundRobin
from tests.core.reservations.servers import (
    ADA,
    BOB,
    CORE,
    HOUR_S,
    message,
    reserve,
    unreserve,
)
from tests.world import EPOCH_S, GIB, World, default_planner, gpus

RUNNING, PENDING = JobState.RUNNING, JobState.PENDING


def test_only_its_users_start_on_a_reserved_device() -> None:
    world = World(gpus(1), settings=CORE)
    reserve(world)
    bob, ada = world.submit(GIB, uid=BOB), world.submit(GIB, uid=ADA)
    assert (world.state(bob), world.state(ada)) == (PENDING, RUNNING)
    assert message(world, bob) == (
        "needs 1 GPU, 0 are left: GPU 0 reserved for ada (reservation 1) for 1h00m more"
    )
    assert world.why(bob) == ["reserved"]
    world.pass_time(600.0)
    assert "for 50m00s more" in message(world, bob), "the reason tells the time that is left now"
    world.end(ada)
    world.pass_time(3001.0)
    assert world.state(bob) is RUNNING


def test_it_is_for_a_group_or_for_nobody() -> None:
    world = World(gpus(2), settings=CORE)
    reserve(world, [0], uids=(7,), group="students", whom="group students")
    reserve(world, [1], uids=(), whom="maintenance")
    cases = {
        world.submit(GIB, uid=7, smact=0.1): ("GPU-0",),
        world.submit(GIB, uid=8, smact=0.1, group="students"): ("GPU-0",),
        world.submit(GIB, uid=8, smact=0.1, group="staff"): (),
        world.submit(GIB, uid=0): (),
    }
    assert {job: world.where(job) for job in cases} == cases


@pytest.mark.parametrize(
    ("limit_s", "predicted_s", "starts"),
    [
        (HOUR_S, None, True),
        (HOUR_S + 1, None, False),
        (None, None, False),
        (None, HOUR_S - 1, True),
        (None, HOUR_S + 1, False),
        (HOUR_S + 1, 60.0, False),
    ],
)
def test_a_job_that_would_not_end_before_does_not_start(
    limit_s: float | None, predicted_s: float | None, starts: bool
) -> None:
    world = World(gpus(1), settings=CORE)
    reserve(world, start_s=HOUR_S, end_s=2 * HOUR_S)
    job = world.submit(GIB, uid=BOB, time_limit_s=limit_s, duration_s=predicted_s)
    assert (world.state(job) is RUNNING) is starts


def test_the_upper_bound_of_a_prediction_counts() -> None:
    world = World(gpus(1), settings=CORE)
    reserve(world, start_s=HOUR_S, end_s=2 * HOUR_S)
    job = world.submit(GIB, uid=BOB)
    found = (Estimate(Quantity.DURATION, 60.0, HOUR_S + 1, "history"),)
    world.edit(job, estimates=found)
    assert world.state(job) is PENDING
    world.edit(job, estimates=(Estimate(Quantity.DURATION, 60.0, HOUR_S, "history"),))
    assert world.state(job) is RUNNING


def test_what_it_says_beforehand() -> None:
    world = World(gpus(1), settings=CORE)
    reserve(world, start_s=HOUR_S, end_s=2 * HOUR_S)
    for more, words in (
        ({}, "in 1h00m (jobs with a --time below 1h00m can start)"),
        ({"time_limit_s": 7200.0}, "in 1h00m (the job has a time limit of 2h00m)"),
        ({"duration_s": 7200.0}, "in 1h00m (the job is expected to need 2h00m)"),
    ):
        job = world.submit(GIB, uid=BOB, **more)
        assert f"reserved for ada (reservation 1) {words}" in message(world, job)


@pytest.mark.parametrize(
    "planner",
    [default_planner(), Backfill(Magm(), Exclusive()), Deadline(Magm(), Exclusive())],
    ids=lambda planner: str(planner.name),
)
@pytest.mark.parametrize("due_s", [None, EPOCH_S + 1e6])
def test_a_job_of_its_users_passes_those_that_wait_for_other_devices(
    planner: object, due_s: float | None
) -> None:
    world = World(gpus(2), planners=(planner,), settings=CORE)
    world.submit(38 * GIB, uid=BOB, smact=0.9)
    reserve(world, [1])
    waits = world.submit(38 * GIB, uid=BOB, smact=0.9, due_s=due_s)
    also = world.submit(38 * GIB, uid=ADA, gpus=2)
    ada = world.submit(GIB, uid=ADA, smact=0.1)
    assert world.state(waits) is PENDING, "its only other device is in use"
    assert world.where(ada) in (("GPU-1",), ()), "in the order of its users"
    world.cancel(also)
    assert world.where(ada) == ("GPU-1",)
    more = world.submit(GIB, uid=ADA, smact=0.1)
    assert world.where(more) == ("GPU-1",)


def test_nobody_waits_behind_a_job_that_may_not_start_for_hours() -> None:
    world = World(gpus(1), settings=CORE)
    reserve(world, start_s=HOUR_S, end_s=2 * HOUR_S, uids=(), whom="maintenance")
    long = world.submit(GIB, uid=BOB)
    short = world.submit(GIB, uid=BOB, time_limit_s=600.0)
    assert (world.state(long), world.state(short)) == (PENDING, RUNNING)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_stands_aside_as_soon_as_it_would_not_end_in_time(restarts: bool) -> None:
    world = World(gpus(1), settings=CORE, policy=Exclusive())
    first = world.submit(GIB, uid=BOB)
    reserve(world, start_s=HOUR_S, end_s=2 * HOUR_S)
    waits = world.submit(GIB, uid=BOB, time_limit_s=HOUR_S / 2)
    short = world.submit(GIB, uid=BOB, time_limit_s=60.0)
    assert waits.id in world.scheduler.state.lines
    if restarts:
        world.restart()
    world.pass_time(HOUR_S / 2 + 1)
    assert waits.id not in world.scheduler.state.lines
    assert not world.scheduler.state.for_users.closing.keys() & {waits.id}
    world.end(first)
    world.read()
    assert (world.state(waits), world.state(short)) == (PENDING, RUNNING)
    world.end(short)
    world.pass_time(2 * HOUR_S)
    assert world.state(waits) is RUNNING, world.scheduler.why_waiting(waits.id, world.now)


def test_a_policy_without_conditions_heeds_it() -> None:
    world = World(gpus(1), settings=CORE, policy=RoundRobin())
    reserve(world)
    assert world.state(world.submit(GIB, uid=BOB)) is PENDING


def test_a_job_on_several_devices_uses_none_that_is_reserved() -> None:
    world = World(gpus(3), settings=CORE)
    reserve(world, [1])
    job = world.submit(GIB, gpus=2, uid=BOB)
    assert world.where(job) == ("GPU-0", "GPU-2")
    wide = world.submit(GIB, gpus=3, uid=BOB)
    assert "needs 3 GPUs, 2 are left: GPU 1 reserved for ada" in message(world, wide)


def test_its_end_and_its_cancellation_let_others_start() -> None:
    world = World(gpus(2), settings=CORE)
    one = reserve(world, [0])
    reserve(world, [1], end_s=600.0)
    jobs = [world.submit(38 * GIB, uid=BOB, collocation=Collocation.EXCLUSIVE) for _ in "12"]
    unreserve(world, one)
    assert [world.where(job) for job in jobs] == [("GPU-0",), ()]
    world.boot_s += 600.0
    world.step(ev.Tick(at=world.now))
    assert [world.where(job) for job in jobs] == [("GPU-0",), ("GPU-1",)]


def test_a_running_job_gets_no_longer_time_limit_than_the_reservation_leaves() -> None:
    world = World(gpus(1), settings=CORE)
    job = world.submit(GIB, uid=BOB, time_limit_s=600.0)
    mine = world.submit(GIB, uid=ADA, time_limit_s=600.0)
    reserve(world, start_s=HOUR_S, end_s=2 * HOUR_S)
    assert world.edit(job, time_limit_s=HOUR_S) is None
    why = world.edit(job, time_limit_s=HOUR_S + 1)
    assert why == "GPU 0 is reserved for ada (reservation 1) in 1h00m, before the job would end"
    assert world.edit(job, time_limit_s=None) == why
    assert world.jobs[job.id].spec.time_limit_s == HOUR_S
    assert world.edit(mine, time_limit_s=None) is None, "it is for its user"


def test_a_search_that_failed_is_made_again() -> None:
    world = World(gpus(2), settings=CORE, policy=Exclusive())
    world.submit(GIB, uid=BOB)
    found = reserve(world, [1])
    job = world.submit(GIB, uid=BOB)
    assert job.id in world.scheduler.state.lines, "it may use the other device"
    for left in ("1h00m", "50m00s"):
        why = world.scheduler.why_waiting(job.id, world.now)
        assert any(f"for {left} more" in each.message for each in why)
        world.boot_s += 600.0
        world.step(ev.Tick(at=world.now))
    unreserve(world, found)
    assert world.where(job) == ("GPU-1",)
