"""A resize of a running attempt: its generation, what stays, its deadline and its withdrawal."""

from __future__ import annotations

import dataclasses

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.requests import with_cpus
from radrm.core.proposals import ResizeTo, SetShares, Start
from radrm.core.records import Needs, Role
from radrm.core.words import ActionKind, JobState
from radrm.structs import replace
from tests.core.actions.silent import each_restart
from tests.core.elastic.workers import (
    asked,
    failed,
    held,
    live,
    resize,
    resized,
    training,
    workers,
)
from tests.core.placements import CORE, Passive, on, propose, start
from tests.world import GIB, World, gpus

# ------------------------------------------------------------------ generations and answers


def test_each_resize_has_its_generation() -> None:
    world, _ = training()
    resize(world, 0, 1)
    assert (asked(world).generation, live(world).generation) == (2, 2)
    resized(world, asked(world))
    resize(world, 0)
    assert asked(world).generation == 3


def test_a_late_answer_to_an_earlier_generation_is_ignored() -> None:
    world, _ = training()
    resize(world, 0, 1)
    first = asked(world)
    failed(world, first)
    world.pass_time(1.0)
    resize(world, 0, 1)
    resized(world, first)
    failed(world, first, "late")
    attempt = live(world)
    assert (attempt.target, attempt.placement) == (workers(0, 1), workers(0))


def test_a_resize_to_the_present_size_is_refused() -> None:
    world, _ = training(2)
    refusal = propose(world, ResizeTo(job_id=1, placement=workers(0, 1)))
    assert refusal.message == "it has this size now"


@each_restart
def test_all_devices_of_a_resize_stay_reserved(restart: object) -> None:
    """Also those that only the target has, and those that only the old placement has."""
    world, _ = training(2)
    resize(world, 0, 2, 3)
    restart(world)
    assert held(world) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}
    requests = [action for action in world.actions if isinstance(action, act.Resize)]
    assert set(requests) == {requests[0]} and len(requests) == (
        1 if restart is not World.restart else 2
    )
    other = world.submit(40 * GIB)
    refusal = propose(world, Start(job_id=other.id, placement=on("GPU-3", mib=40 * GIB)))
    assert refusal.rule == "memory"
    resized(world, asked(world))
    assert held(world) == {"GPU-0", "GPU-2", "GPU-3"}
    assert [task.number for task in live(world).tasks] == [0, 2, 3]


# ------------------------------------------------------------------ what stays is not checked anew


def test_a_job_shrinks_beside_drained_unread_and_full_devices() -> None:
    world, _ = training(4)
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))
    world.broken["GPU-1"] = "no answer"
    world.unmanaged["GPU-2"] = 39 * GIB
    world.pass_time(10.0)
    resize(world, 0, 1, 2)
    resized(world, asked(world))
    assert live(world).placement == workers(0, 1, 2)


def settled_world() -> World:
    """A job whose two reservations of 8 GiB have shrunk to what it uses and headroom."""
    world = World(gpus(4), planners=(Passive(),), settings=CORE)
    job = world.submit(8 * GIB, roles=(Role(count_max=4),))
    start(world, job, workers(0, 1, mib=8 * GIB))
    world.obey = False
    world.used[job.id] = 2 * GIB
    for _ in range(4):
        world.pass_time(60.0)
    assert reserved(world) == {"GPU-0": 3 * GIB, "GPU-1": 3 * GIB}
    return world


def reserved(world: World) -> dict[str, int | None]:
    return {r.device: r.mib for r in world.stored.values()}


@pytest.mark.parametrize("works", [True, False])
def test_a_reservation_that_has_shrunk_stays_so(works: bool) -> None:
    world = settled_world()
    wish = ResizeTo(job_id=1, placement=workers(0, 1, 2, mib=8 * GIB))
    assert propose(world, wish) is None
    shrunk = {"GPU-0": 3 * GIB, "GPU-1": 3 * GIB}
    assert reserved(world) == {**shrunk, "GPU-2": 8 * GIB}
    resized(world, asked(world)) if works else failed(world, asked(world))
    assert reserved(world) == ({**shrunk, "GPU-2": 8 * GIB} if works else shrunk)


def test_a_change_of_cpus_reserves_no_memory_again() -> None:
    world = settled_world()
    wish = with_cpus(workers(0, 1, mib=8 * GIB), {("main", 0): 4.0})
    assert propose(world, ResizeTo(job_id=1, placement=wish)) is None
    resized(world, asked(world))
    assert reserved(world) == {"GPU-0": 3 * GIB, "GPU-1": 3 * GIB}
    assert [s.cpus for s in live(world).placement.shares] == [4.0, None]


def test_a_task_that_joins_another_on_its_device_has_room_to_grow() -> None:
    """The memory of the first has settled; that of the second is yet to come."""
    world = settled_world()
    both = replace(
        workers(0, 1, mib=8 * GIB),
        shares=(
            *workers(0, 1, mib=8 * GIB).shares,
            replace(workers(0, mib=8 * GIB).shares[0], task=2),
        ),
    )
    assert propose(world, ResizeTo(job_id=1, placement=both)) is None
    assert reserved(world)["GPU-0"] == 16 * GIB, "the sum"
    world.pass_time(500.0)
    assert reserved(world)["GPU-0"] == 16 * GIB, "it does not shrink before the task is there"
    resized(world, asked(world))
    world.pass_time(60.0)
    assert reserved(world)["GPU-0"] == 16 * GIB, "it has just come"
    world.used[1] = 4 * GIB
    for _ in range(4):
        world.pass_time(60.0)
    assert reserved(world)["GPU-0"] == 5 * GIB


def test_a_device_is_new_when_its_task_has_come_and_not_when_it_was_reserved() -> None:
    """Else its SM activity would be believed before the task works."""
    settings = dataclasses.replace(CORE, smact_warm_s=60.0)
    world = World(gpus(2), planners=(Passive(),), settings=settings)
    start(world, world.submit(GIB, smact=0.5, roles=(Role(count_max=2),)), workers(0))
    world.obey, world.used[1] = False, GIB
    world.pass_time(60.0)
    resize(world, 0, 1)
    world.used[1] = 0  # GPU-1 is unused
    for _ in range(4):
        world.pass_time(60.0)
    assert world.state(1) is JobState.RUNNING
    resized(world, asked(world))
    assert world.scheduler.snapshot.device("GPU-1").warm_from_s == world.boot_s + 60.0


def test_a_users_gpu_time_follows_the_size() -> None:
    world, _ = training()
    resize(world, 0, 1, 2)
    assert world.scheduler.snapshot.uses.users[0].own.gpus == 1.0
    resized(world, asked(world))
    assert world.scheduler.snapshot.uses.users[0].own.gpus == 3.0


# ------------------------------------------------------------------ what can change


TASK = {
    "device": "GPU-3",
    "reserved_mib": 2 * GIB,
    "memory_mib": GIB,
    "sm_fraction": 0.5,
}


@pytest.mark.parametrize("field", TASK)
def test_a_task_that_stays_keeps_all_but_its_cpus(field: str) -> None:
    world, _ = training(2)
    shares = workers(0, 1).shares
    other = (replace(shares[0], **{field: TASK[field]}), *shares[1:])
    refusal = propose(world, ResizeTo(job_id=1, placement=replace(workers(0), shares=other)))
    assert refusal.rule == "resize"


@pytest.mark.parametrize(
    "cpus, why", [(1.0, "needs 2 CPUs"), (9.0, "may have 8 CPUs"), (8.0, None)]
)
def test_cpus_stay_within_their_range(cpus: float, why: str | None) -> None:
    world = World(gpus(2), planners=(Passive(),), settings=CORE)
    job = world.submit(GIB, roles=(Role(needs=Needs(cpus=2.0, cpus_max=8.0)),))
    start(world, job, workers(0, cpus=2.0))
    refusal = propose(world, ResizeTo(job_id=1, placement=workers(0, cpus=cpus)))
    assert (refusal is None) if why is None else (refusal is not None and why in refusal.message)


def test_late_shares_undo_no_resize() -> None:
    world, _ = training()
    shares = workers(0, cpus=2.0).shares
    assert propose(world, SetShares(job_id=1, shares=shares)) is None
    world.pass_time(CORE.action_limit_s)
    resize(world, 0, 1)
    resized(world, asked(world))
    world.step(ev.SharesApplied(at=world.now, job_id=1, serial=1, shares=shares))
    assert live(world).placement == workers(0, 1)


# ------------------------------------------------------------------ silence


def until_withdrawn(restart: object = None) -> World:
    world, _ = training(2)
    resize(world, 0, 2)
    world.pass_time(CORE.resize_limit_s - 1.0)
    assert not asked(world).withdrawn
    world.pass_time(1.0)
    assert asked(world).withdrawn and asked(world).generation == 2
    if restart is not None:
        restart(world)
        assert asked(world).withdrawn
    assert held(world) == {"GPU-0", "GPU-1", "GPU-2"}, "nobody knows which tasks run"
    return world


@each_restart
@pytest.mark.parametrize("which", [0, -1])
def test_a_withdrawn_resize_that_failed_is_undone(restart: object, which: int) -> None:
    """The host may answer with the first request, too."""
    world = until_withdrawn(restart)
    requests = [a for a in world.actions if isinstance(a, act.Resize)]
    failed(world, requests[which], "it never began")
    attempt = live(world)
    assert (attempt.placement, attempt.target, attempt.pending) == (workers(0, 1), None, ())
    assert attempt.resize_failed == "it never began"
    assert held(world) == {"GPU-0", "GPU-1"}
    refusal = propose(world, ResizeTo(job_id=1, placement=workers(0)))
    assert "it never began" in refusal.message
    world.pass_time(1.0)
    resize(world, 0)
    assert live(world).resize_failed is None


@each_restart
def test_a_withdrawn_resize_that_was_past_undoing_is_completed(restart: object) -> None:
    world = until_withdrawn(restart)
    resized(world, asked(world))
    assert live(world).placement == workers(0, 2)
    assert held(world) == {"GPU-0", "GPU-2"}


@each_restart
def test_a_resize_whose_withdrawal_has_no_answer_costs_the_attempt(restart: object) -> None:
    world = until_withdrawn()
    world.pass_time(CORE.action_limit_s)
    restart(world)
    assert isinstance(world.actions[-1], act.TakeReadings | act.Terminate)
    assert world.state(1) is JobState.STOPPING
    assert held(world) == {"GPU-0", "GPU-1", "GPU-2"}, "until the processes have ended"
    world.end(1, signal=15)
    assert world.state(1) is JobState.PENDING and held(world) == set()
    assert "its withdrawal had none" in world.attempts[1, 1].reason


def test_an_answer_while_the_attempt_is_stopped_releases_what_is_free() -> None:
    world = until_withdrawn()
    world.pass_time(CORE.action_limit_s)
    resized(world, asked(world))
    assert live(world).placement == workers(0, 2)
    assert held(world) == {"GPU-0", "GPU-2"}


@each_restart
def test_a_job_that_is_cancelled_during_a_resize_holds_all_until_its_end(restart: object) -> None:
    world, _ = training(2)
    resize(world, 0, 2)
    world.cancel(1)
    world.pass_time(CORE.resize_limit_s)
    restart(world)
    assert not any(a.withdrawn for a in world.actions if isinstance(a, act.Resize))
    assert live(world).asked(ActionKind.RESIZE) is None
    assert held(world) == {"GPU-0", "GPU-1", "GPU-2"}
    world.end(1, signal=9)
    assert world.state(1) is JobState.CANCELLED and held(world) == set()


def test_a_withdrawal_that_could_not_be_saved_has_its_time_from_then_on() -> None:
    world = until_withdrawn()
    world.boot_s += CORE.action_limit_s - 1.0
    world.step(ev.ActionsDelayed(at=world.now))
    world.pass_time(CORE.action_limit_s - 1.0)
    assert world.state(1) is JobState.RUNNING
    world.pass_time(1.0)
    assert world.state(1) is JobState.STOPPING
