"""Preemptions: a job that can save is asked first, and stopped when it has saved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Preempt, TakeCheckpointNow
from radrm.core.records import Attempt, Checkpoint, Exit, Job, OutOfMemory, Progress
from radrm.core.words import ActionKind, CheckpointKind, JobState, Outcome, Queue, StopReason
from tests.core.placements import CORE, on, propose
from tests.world import GIB, World, gpus

NONE, SIGNAL, EXIT = CheckpointKind.NONE, CheckpointKind.SIGNAL, CheckpointKind.EXIT
PATIENCE_S = CORE.checkpoint_limit_s
RAN_S = 3600.0
OK, BY_TERM = Exit(0), Exit(signal=15)


def server(kind: CheckpointKind = SIGNAL, devices: int = 1, **spec: object) -> World:
    """Job 1 has run for an hour; jobs 2 and 3 wait for as many GPUs as there are."""
    world = World(gpus(devices), settings=CORE)
    world.submit(30 * GIB, smact=0.1, checkpoint=Checkpoint(kind), **spec)  # type: ignore[arg-type]
    for _ in range(2):
        world.submit(30 * GIB, gpus=devices, smact=0.1, requeue=True)
    world.obey = False
    world.pass_time(RAN_S)
    return world


def preempt(world: World, behind: bool = False) -> None:
    assert propose(world, Preempt(job_id=1, behind=behind)) is None


def attempt_of(world: World) -> Attempt:
    return world.attempts[1, max(number for job_id, number in world.attempts if job_id == 1)]


def save(world: World, work_done: float = 0.5) -> None:
    progress = Progress(world.now, work_done=work_done)
    world.step(ev.CheckpointTaken(at=world.now, job_id=1, serial=1, progress=progress))


def end(world: World, how: Exit = BY_TERM, **said: object) -> Job:
    world.step(
        ev.AttemptEnded(at=world.now, job_id=1, serial=1, exits=(how,), **said)  # type: ignore[arg-type]
    )
    world.read()
    return world.jobs[1]


def stops(world: World) -> list[act.Action]:
    return [each for each in world.actions if isinstance(each, (act.Terminate, act.Kill))]


def line(world: World) -> list[int]:
    """The job that runs or is launched, and those that wait, in their order."""
    state = world.scheduler.state
    return [*sorted(state.attempts), *state.waiting.gpu]


# ------------------------------------------------------------------ the way of a preemption


@pytest.mark.parametrize(("behind", "then"), [(False, [1, 2, 3]), (True, [2, 3, 1])])
def test_it_saves_is_stopped_and_waits_in_its_place_or_behind_all(
    behind: bool, then: list[int]
) -> None:
    world = server()
    preempt(world, behind)
    assert isinstance(world.actions[-1], act.TakeCheckpoint) and not stops(world)
    assert world.state(1) is JobState.RUNNING
    world.pass_time(7.0)
    save(world)
    assert world.state(1) is JobState.STOPPING and len(stops(world)) == 1
    job = end(world)
    assert attempt_of(world).number == (2 if not behind else 1)
    assert world.attempts[1, 1].outcome is Outcome.PREEMPTED
    assert (line(world), job.saved is not None, job.save_s) == (then, True, 7.0)
    assert (job.requeued is not None) is behind


@pytest.mark.parametrize("behind", [False, True])
def test_a_job_that_cannot_save_is_stopped_at_once(behind: bool) -> None:
    world = server(NONE, requeue=True)
    preempt(world, behind)
    assert world.state(1) is JobState.STOPPING and len(stops(world)) == 1
    end(world)
    assert line(world) == ([2, 3, 1] if behind else [1, 2, 3])


@pytest.mark.parametrize("how", [OK, BY_TERM])
@pytest.mark.parametrize(("behind", "then"), [(False, [1, 2, 3]), (True, [2, 3, 1])])
def test_a_job_that_leaves_by_itself_is_not_stopped(
    how: Exit, behind: bool, then: list[int]
) -> None:
    world = server(EXIT)
    preempt(world, behind)
    save(world)
    assert world.state(1) is JobState.RUNNING and not stops(world)
    end(world, how)
    assert world.attempts[1, 1].outcome is Outcome.PREEMPTED and line(world) == then


def test_one_that_was_to_leave_and_stays_is_stopped_at_the_deadline() -> None:
    world = server(EXIT)
    preempt(world, behind=True)
    save(world)
    world.pass_time(PATIENCE_S)
    assert world.state(1) is JobState.STOPPING
    end(world)
    assert line(world) == [2, 3, 1]


# ------------------------------------------------------------------ no answer


def test_without_an_answer_it_is_called_off_and_proposed_again_after_a_pause() -> None:
    world = server()
    preempt(world, behind=True)
    world.pass_time(PATIENCE_S)
    attempt = attempt_of(world)
    assert world.state(1) is JobState.RUNNING and not stops(world)
    assert (attempt.pending, attempt.goes_behind) == ((), False)
    assert attempt.checkpoint_failed is not None and "has not saved" in attempt.checkpoint_failed
    refusal = propose(world, Preempt(job_id=1))
    assert refusal is not None and refusal.rule == "pause"
    assert propose(world, TakeCheckpointNow(job_id=1)) is None, "only preemptions wait"


def test_after_the_pause_it_is_asked_again() -> None:
    world = server()
    preempt(world)
    world.pass_time(PATIENCE_S)
    world.pass_time(60.0)
    preempt(world, behind=True)
    save(world)
    end(world)
    assert line(world) == [2, 3, 1]


def test_a_late_save_is_kept_and_stops_nothing() -> None:
    world = server()
    preempt(world, behind=True)
    world.pass_time(PATIENCE_S)
    save(world)
    assert world.state(1) is JobState.RUNNING and world.jobs[1].saved is not None
    world.pass_time(10 * PATIENCE_S)
    assert end(world, OK).state is JobState.COMPLETED


def test_one_that_leaves_after_the_deadline_still_goes_behind() -> None:
    world = server(EXIT)
    preempt(world, behind=True)
    world.pass_time(PATIENCE_S)
    assert world.state(1) is JobState.RUNNING
    end(world, OK)
    assert line(world) == [2, 3, 1]


def test_a_later_request_of_another_kind_keeps_its_place() -> None:
    world = server(EXIT)
    preempt(world, behind=True)
    world.pass_time(PATIENCE_S)
    assert propose(world, TakeCheckpointNow(job_id=1)) is None
    end(world, OK)
    assert line(world) == [1, 2, 3]


def test_a_request_that_nobody_hears_calls_it_off() -> None:
    world = server(EXIT)
    preempt(world, behind=True)
    asked = world.actions[-1]
    assert isinstance(asked, act.TakeCheckpoint)
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="nobody handles TERM"))
    attempt = attempt_of(world)
    assert (attempt.goes_behind, attempt.checkpoint_asked) == (False, None)
    assert end(world, OK).state is JobState.COMPLETED


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
def test_a_users_requeue_stops_it_at_once(phase: str) -> None:
    world = server()
    preempt(world, behind=True)
    PHASES[phase](world)
    world.requeue(1)
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


def test_one_that_fails_meanwhile_is_retried_in_its_place() -> None:
    world = server(retries=1)
    preempt(world, behind=True)
    job = end(world, Exit(1))
    assert (job.retries_used, job.requeued) == (1, None)


def test_one_that_dies_of_out_of_memory_recovers() -> None:
    world = server()
    preempt(world, behind=True)
    job = end(world, Exit(1), oom=OutOfMemory("test", 512))
    assert (job.oom_count, job.queue, job.requeued) == (1, Queue.RECOVERY, None)
    assert line(world)[0] == 1


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


# ------------------------------------------------------------------ other requests


def test_there_is_one_request_at_a_time() -> None:
    world = server(devices=2)
    preempt(world, behind=True)
    for other in (
        Preempt(job_id=1),
        TakeCheckpointNow(job_id=1),
        Migrate(job_id=1, placement=on("GPU-1", mib=30 * GIB)),
    ):
        refusal = propose(world, other)
        assert refusal is not None and refusal.rule == "pending"
    assert attempt_of(world).goes_behind and world.jobs[1].target is None


def test_a_move_under_way_excludes_it() -> None:
    world = server(devices=2)
    assert propose(world, Migrate(job_id=1, placement=on("GPU-1", mib=30 * GIB))) is None
    refusal = propose(world, Preempt(job_id=1, behind=True))
    assert refusal is not None and refusal.rule == "pending"
    save(world)
    end(world)
    assert world.where(1) == ("GPU-1",) and world.jobs[1].requeued is None


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
def test_a_users_request_comes_first(kind: CheckpointKind) -> None:
    world = server(kind)
    world.step(ev.CheckpointRequested(at=world.now, job_id=1, by="ann"))
    refusal = propose(world, Preempt(job_id=1, behind=True))
    assert refusal is not None and refusal.rule == "pending"
    save(world)
    if kind is SIGNAL:
        assert world.state(1) is JobState.RUNNING
        preempt(world, behind=True)
        assert world.state(1) is JobState.RUNNING, "the save before does not answer this request"
        world.pass_time(1.0)
        save(world)
        end(world)
        assert line(world) == [2, 3, 1]
    else:
        end(world, OK)
        assert line(world) == [1, 2, 3]


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
    assert live is not None and live.stop is not None
    assert live.stop.reason is StopReason.PREEMPTED and live.asked(ActionKind.CHECKPOINT) is None


# ------------------------------------------------------------------ the tail


def test_a_recovering_job_leaves_the_recovery_queue_when_it_goes_behind() -> None:
    world = server()
    world.end(1, 1, oom=OutOfMemory("test", 512))
    world.step(ev.AttemptStarted(at=world.now, job_id=1, serial=2))
    assert world.jobs[1].recovers
    preempt(world, behind=True)
    world.pass_time(1.0)
    done = Progress(world.now, work_done=0.5)
    world.step(ev.CheckpointTaken(at=world.now, job_id=1, serial=2, progress=done))
    world.step(ev.AttemptEnded(at=world.now, job_id=1, serial=2, exits=(BY_TERM,)))
    world.read()
    assert line(world) == [2, 3, 1] and not world.jobs[1].recovers
    assert world.jobs[1].memory_floor_mib is not None, "what its death has proven stays"


def test_those_that_went_behind_keep_their_order_and_newer_jobs_come_after() -> None:
    world = server()
    preempt(world, behind=True)
    save(world)
    end(world)
    later = world.submit(30 * GIB)
    assert line(world) == [2, 3, 1, later.id]
