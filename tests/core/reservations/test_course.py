"""How reservations begin, are used, and end; and what a restart and the clock change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radrm.core import events as ev
from radrm.core import reservations
from radrm.core.actions import TakeCheckpoint
from radrm.core.constraints.claims import expected_free_mib
from radrm.core.constraints.fit import turns
from radrm.core.records import Checkpoint, Instant, Job
from radrm.core.state.timers import CLOSING, KILL, Timer
from radrm.core.words import CheckpointKind, Collocation, JobState
from radrm.planners.forecast import Forecast
from radrm.policies.sharing import Magm
from tests.core.placements import Passive, on, refused
from tests.core.reservations.servers import (
    ADA,
    BOB,
    CORE,
    HOUR_S,
    message,
    reserve,
    unreserve,
)
from tests.world import GIB, World, gpus

CARL = 3
RUNNING, PENDING = JobState.RUNNING, JobState.PENDING


def open_ids(world: World) -> list[int]:
    return list(world.scheduler.state.for_users.every)


# ------------------------------------------------------------------ what runs at the start


def test_what_runs_at_the_start_runs_on() -> None:
    world = World(gpus(1), settings=CORE)
    job = world.submit(GIB, uid=BOB, smact=0.1, requeue=True)
    reserve(world, start_s=60.0)
    world.pass_time(61.0)
    assert world.state(job) is RUNNING
    assert world.state(world.submit(GIB, uid=ADA, smact=0.1)) is RUNNING, "beside it"


def test_it_preempts_what_can_be_preempted_where_it_says_so() -> None:
    world = World(gpus(1), settings=CORE)
    stays = world.submit(GIB, uid=BOB, smact=0.1)
    leaves = world.submit(GIB, uid=BOB, smact=0.1, requeue=True)
    saves = world.submit(*(GIB,), uid=BOB, smact=0.1, checkpoint=Checkpoint(CheckpointKind.SIGNAL))
    mine = world.submit(GIB, uid=ADA, smact=0.1, requeue=True)
    reserve(world, start_s=60.0, preempt=True)
    assert world.state(leaves) is RUNNING
    world.pass_time(61.0)
    states = [world.state(job) for job in (stays, leaves, saves, mine)]
    assert states == [RUNNING, PENDING, PENDING, RUNNING]
    assert sum(isinstance(action, TakeCheckpoint) for action in world.actions) == 1
    world.pass_time(HOUR_S)
    assert world.state(leaves) is RUNNING, "it goes on afterwards"


# ------------------------------------------------------------------ nobody uses it


def test_what_a_user_has_reserved_for_itself_and_does_not_use_is_released() -> None:
    world = World(gpus(2), settings=replace(CORE, reservation_unused_s=600.0))
    job = world.submit(GIB, uid=ADA, smact=0.1)
    (used,) = world.where(job)
    other = 1 - int(used[-1])
    for devices, own in ((int(used[-1]), True), (other, True)):
        reserve(world, [devices], own=own, by_uid=ADA, end_s=2 * HOUR_S)
    of_root = reserve(world, [other], start_s=3 * HOUR_S, end_s=4 * HOUR_S)
    world.pass_time(599.0)
    assert open_ids(world) == [1, 2, 3]
    world.boot_s += 2.0
    world.step(ev.Tick(at=world.now))
    assert open_ids(world) == [1, 3]
    assert world.for_users[2].why_ended == "released: no job of ada for 10m00s"
    world.pass_time(3 * HOUR_S + 700.0)
    assert of_root.id in open_ids(world), "root's stays"


def test_a_job_that_waits_for_it_keeps_it() -> None:
    world = World(gpus(1), settings=replace(CORE, reservation_unused_s=600.0))
    blocks = world.submit(38 * GIB, uid=BOB, smact=0.9)
    reserve(world, own=True, by_uid=ADA, end_s=2 * HOUR_S)
    waits = world.submit(20 * GIB, uid=ADA)
    world.pass_time(700.0)
    assert open_ids(world) == [1]
    world.cancel(waits)
    world.pass_time(300.0)
    again = world.submit(20 * GIB, uid=ADA)
    world.pass_time(400.0)
    assert open_ids(world) == [1], "the time counts without a gap"
    world.end(blocks)
    world.read()
    assert world.state(again) is RUNNING


def test_the_step_wakes_itself_for_what_comes_next() -> None:
    world = World(gpus(2), settings=replace(CORE, reservation_unused_s=600.0))
    for number in range(600):
        world.scheduler.state.wake(Timer(1e6 + number, KILL, 999, 999))
    reserve(world, [0], start_s=50.0)
    reserve(world, [1], own=True, by_uid=ADA)
    for what in (50.0, 600.0, HOUR_S):
        wake_at = world.step(ev.Tick(at=world.now)).wake_at
        assert wake_at is not None and wake_at == pytest.approx(1000.0 + what, abs=0.01)
        world.boot_s = wake_at + 0.01


# ------------------------------------------------------------------ the clock, and restarts


def test_a_clock_that_was_wrong_ends_none() -> None:
    world = World(gpus(1), settings=CORE)
    reserve(world)
    bob = world.submit(GIB, uid=BOB)
    world.ahead_s = 5 * HOUR_S
    world.pass_time(60.0)
    assert world.state(bob) is RUNNING, "it seems to be over"
    world.end(bob)
    world.ahead_s = 0.0
    world.pass_time(60.0)
    assert world.state(world.submit(GIB, uid=BOB)) is PENDING
    world.ahead_s = -5 * HOUR_S
    world.pass_time(60.0)
    last = world.submit(GIB, uid=BOB, time_limit_s=60.0)
    assert world.state(last) is RUNNING, "it is still to come"


def test_one_that_is_over_is_forgotten_after_a_day() -> None:
    world = World(gpus(1), settings=CORE)
    reserve(world)
    world.pass_time(HOUR_S + 1)
    world.pass_time(86_000.0)
    assert open_ids(world) == [1]
    world.pass_time(500.0)
    assert open_ids(world) == [] and world.for_users[1].why_ended == "over"
    assert reserve(world).id == 2


@pytest.mark.parametrize("reboots", [False, True])
def test_a_restart_changes_nothing(reboots: bool) -> None:
    world = World(gpus(2), settings=CORE)
    reserve(world, [0])
    reserve(world, [1], start_s=HOUR_S, end_s=2 * HOUR_S)
    unreserve(world, reserve(world, [0], start_s=5 * HOUR_S, end_s=6 * HOUR_S))
    bob = world.submit(GIB, uid=BOB)
    if reboots:
        world.ahead_s += world.boot_s - 10.0
        world.boot_s = 10.0
    world.restart()
    assert open_ids(world) == [1, 2]
    assert world.state(bob) is PENDING and "reserved for ada" in message(world, bob)
    short = world.submit(GIB, uid=BOB, time_limit_s=60.0)
    assert world.where(short) == ("GPU-1",)
    unreserve(world, world.for_users[1])
    assert world.where(bob) == ("GPU-0",)
    assert reserve(world, [0], start_s=5 * HOUR_S, end_s=6 * HOUR_S).id == 4, "no id twice"


def test_a_device_that_returns_is_still_reserved() -> None:
    world = World(gpus(2), settings=CORE)
    reserve(world, [0])
    devices = world.devices
    for there in (devices[1:], devices):
        world.devices = there
        world.step(ev.DevicesSeen(at=world.now, devices=there))
    world.read()
    jobs = [world.submit(38 * GIB, uid=BOB) for _ in "12"]
    assert [world.where(job) for job in jobs] == [("GPU-1",), ()]


# ------------------------------------------------------------------ planners that look ahead


def test_planners_see_when_the_device_is_free_for_a_job() -> None:
    world = World(gpus(1), planners=(Passive(),), settings=CORE)
    reserve(world, start_s=HOUR_S / 2, end_s=2 * HOUR_S)
    view, now_s, state = world.scheduler.view, world.boot_s, world.scheduler.state
    far_s, ledger = now_s + HOUR_S, state.ledgers["GPU-0"]

    def told(job: Job) -> list[float | None]:
        return [
            expected_free_mib(state, ledger, job, now_s, now_s + 60.0),
            expected_free_mib(state, ledger, job, far_s, far_s + 60.0),
            view.earliest_s("GPU-0", GIB, HOUR_S, job),
            Forecast(view, Magm(), job).start_s,
        ]

    bob = world.submit(GIB, uid=BOB, time_limit_s=HOUR_S)
    ada = world.submit(GIB, uid=ADA, time_limit_s=HOUR_S)
    free = 40 * GIB
    assert told(bob) == [free, 0, now_s + 2 * HOUR_S, now_s + 2 * HOUR_S]
    assert told(ada) == [free, free, now_s, now_s]


def test_no_planner_places_a_job_there_all_the_same() -> None:
    world = World(gpus(1), planners=(Passive(),), settings=CORE)
    reserve(world)
    assert refused(world, world.submit(GIB, uid=BOB), on("GPU-0")) == "reserved"
    assert refused(world, world.submit(GIB, uid=ADA), on("GPU-0")) is None


# ------------------------------------------------------------------ turns of users on MPS servers


@pytest.mark.parametrize("begins", [False, True])
def test_the_next_user_on_an_mps_server_is_chosen_again_when_jobs_are_sorted_anew(
    begins: bool,
) -> None:
    world = World(gpus(1, mps=True), settings=replace(CORE, mps_cohort_s=100.0))
    world.submit(GIB, uid=CARL, smact=0.1)
    client = {"uid": BOB, "smact": 0.1, "collocation": Collocation.MPS}
    long = world.submit(GIB, time_limit_s=600.0, **client)
    short = world.submit(GIB, time_limit_s=100.0, **client)
    reserve(world, start_s=1000.0 if begins else 0.0, end_s=2000.0)
    world.pass_time(399.0)
    state, later_s = world.scheduler.state, 2.0 if begins else 2000.0
    state.begin(Instant(world.now.boot_s + later_s, world.now.wall_s + later_s))
    assert turns(state) == {}, "asked before the jobs are sorted"
    if begins:
        reservations.sort_again(state, Timer(state.for_users.closing[long.id], CLOSING, long.id))
    else:
        reservations.update(state)
    assert turns(state) == {"GPU-0": short.id if begins else long.id}
