"""What users, devices and restarts do to a preemption that is under way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Exit, OutOfMemory, Progress
from radrm.core.words import ActionKind, CheckpointKind, JobState, Outcome, Queue, StopReason
from tests.core.actions.preempting import (
    BY_TERM,
    EXIT,
    OK,
    PATIENCE_S,
    RAN_S,
    SIGNAL,
    attempt_of,
    end,
    line,
    preempt,
    save,
    server,
    stops,
)
from tests.core.placements import CORE
from tests.world import World

# ------------------------------------------------------------------ what happens meanwhile

PHASES: dict[str, Callable[[World], object]] = {"asked": lambda world: None, "saved": save}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("phase", PHASES)
def test_a_cancel_ends_it(phase: str, restart: bool) -> None:
    world = server()
    preempt(world, behind=True)
    PHASES[phase](world)
    if restart:
        world.restart()
    world.cancel(1)
    assert world.state(1) is JobState.STOPPING
    assert end(world).state is JobState.CANCELLED
    world.pass_time(2 * PATIENCE_S)
    assert world.state(1) is JobState.CANCELLED and 1 not in line(world)


@pytest.mark.parametrize("phase", PHASES)
def test_a_users_requeue_from_the_start_stops_it_at_once(phase: str) -> None:
    world = server()
    preempt(world, behind=True)
    PHASES[phase](world)
    world.requeue(1, from_start=True)
    assert world.state(1) is JobState.STOPPING
    job = end(world)
    assert line(world) == [2, 3, 1] and job.pause is None


@pytest.mark.parametrize("phase", PHASES)
def test_its_time_limit_is_stronger(phase: str) -> None:
    world = server(time_limit_s=RAN_S + 30.0)
    preempt(world, behind=True)
    PHASES[phase](world)
    world.pass_time(30.0)
    assert end(world).state is JobState.TIMEOUT


@pytest.mark.parametrize("phase", PHASES)
def test_a_drain_changes_nothing(phase: str) -> None:
    world = server()
    preempt(world, behind=True)
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="repair"))
    save(world)
    if phase == "saved":
        world.hold(1)
    assert end(world).state is JobState.PENDING and not world.scheduler.state.attempts
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason=None))
    assert line(world) == [2, 3, 1]


def test_a_hold_of_a_running_job_is_not_noted() -> None:
    world = server()
    preempt(world)
    world.hold(1)
    save(world)
    end(world)
    assert line(world) == [1, 2, 3]


def test_one_that_completes_meanwhile_has_completed() -> None:
    world = server()
    preempt(world, behind=True)
    world.report(1, work_done=1.0)
    assert end(world, OK).state is JobState.COMPLETED


@pytest.mark.parametrize("oom", [None, OutOfMemory("test", 512)], ids=["retry", "recovery"])
def test_one_that_fails_meanwhile_runs_again_in_its_place(oom: OutOfMemory | None) -> None:
    world = server(retries=1)
    preempt(world, behind=True)
    job = end(world, Exit(1), oom=oom)
    assert (job.retries_used, job.oom_count, job.requeued) == (
        (0, 1, None) if oom else (1, 0, None)
    )
    assert not oom or (job.queue is Queue.RECOVERY and line(world)[0] == 1)


@pytest.mark.parametrize("phase", PHASES)
def test_a_lost_one_keeps_its_place(phase: str) -> None:
    world = server(requeue=True, devices=2)
    preempt(world, behind=True)
    PHASES[phase](world)
    # The GPU vanishes, and the host finds that the processes are gone.
    world.devices = world.devices[1:]
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    job = end(world, lost="its device has vanished")
    lost = phase == "asked"
    assert world.attempts[1, 1].outcome is (Outcome.LOST if lost else Outcome.PREEMPTED)
    assert (job.requeued is None) is lost


def test_processes_that_outlive_kill_end_it() -> None:
    world = server()
    preempt(world, behind=True)
    save(world)
    world.pass_time(CORE.grace_s)
    world.pass_time(CORE.unkillable_s)
    assert world.state(1) is JobState.FAILED


# ------------------------------------------------------------------ a restart


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
def test_a_restart_asks_again_and_goes_on(kind: CheckpointKind) -> None:
    world = server(kind)
    preempt(world, behind=True)
    before = attempt_of(world)
    world.pass_time(10.0)
    world.actions.clear()
    world.restart()
    asked = [each for each in world.actions if isinstance(each, act.TakeCheckpoint)]
    assert [each.due_boot_s for each in asked] == [before.pending[0].due_boot_s]
    save(world)
    end(world, BY_TERM if kind is SIGNAL else OK)
    assert line(world) == [2, 3, 1]


def test_a_restart_before_the_stop_is_sent_sends_it() -> None:
    world = server()
    preempt(world, behind=True)
    save(world)
    world.actions.clear()
    world.restart()
    world.pass_time(CORE.grace_s)
    assert stops(world), "the stop was decided, and must reach the job"
    end(world, Exit(signal=9))
    assert line(world) == [2, 3, 1]


def test_a_restart_after_the_deadline_calls_it_off() -> None:
    world = server()
    preempt(world, behind=True)
    world.boot_s += 2 * PATIENCE_S
    world.restart()
    attempt = attempt_of(world)
    assert (attempt.pending, attempt.goes_behind) == ((), False)
    assert world.state(1) is JobState.RUNNING and not stops(world)


def test_an_end_during_the_restart_counts_as_preempted() -> None:
    world = server(EXIT)
    preempt(world, behind=True)
    ended = ev.AttemptEnded(at=world.now, job_id=1, serial=1, exits=(OK,))
    world.restart(ended)
    assert world.attempts[1, 1].outcome is Outcome.PREEMPTED and line(world) == [2, 3, 1]


def test_a_save_during_the_restart_stops_it() -> None:
    world = server()
    preempt(world, behind=True)
    progress = Progress(world.now, work_done=0.5)
    world.restart(ev.CheckpointTaken(at=world.now, job_id=1, serial=1, progress=progress))
    assert world.state(1) is JobState.STOPPING
    live = world.live(1)
    assert live.stop.reason is StopReason.PREEMPTED and live.asked(ActionKind.CHECKPOINT) is None
