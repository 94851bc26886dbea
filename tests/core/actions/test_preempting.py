"""Preemptions: a job that can save is asked first, and stopped when it has saved."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Preempt, TakeCheckpointNow
from radrm.core.records import Exit, OutOfMemory, Progress
from radrm.core.words import CheckpointKind, JobState, Outcome
from tests.core.actions.preempting import (
    BY_TERM,
    EXIT,
    NONE,
    OK,
    PATIENCE_S,
    SIGNAL,
    attempt_of,
    end,
    line,
    preempt,
    save,
    server,
    stops,
)
from tests.core.placements import on, propose
from tests.world import GIB

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
    later = world.submit(30 * GIB)
    assert line(world) == [*then, later.id], "newer jobs come after"
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
    assert "has not saved" in attempt.checkpoint_failed
    assert propose(world, Preempt(job_id=1)).rule == "pause"
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


@pytest.mark.parametrize("asked_again", [False, True])
def test_one_that_leaves_after_the_deadline_goes_behind_unless_it_was_asked_for_another_reason(
    asked_again: bool,
) -> None:
    world = server(EXIT)
    preempt(world, behind=True)
    world.pass_time(PATIENCE_S)
    assert world.state(1) is JobState.RUNNING
    if asked_again:
        assert propose(world, TakeCheckpointNow(job_id=1)) is None
    end(world, OK)
    assert line(world) == ([1, 2, 3] if asked_again else [2, 3, 1])


def test_a_request_that_nobody_hears_calls_it_off() -> None:
    world = server(EXIT)
    preempt(world, behind=True)
    asked = world.actions[-1]
    assert isinstance(asked, act.TakeCheckpoint)
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="nobody handles TERM"))
    attempt = attempt_of(world)
    assert (attempt.goes_behind, attempt.checkpoint_asked) == (False, None)
    assert end(world, OK).state is JobState.COMPLETED


# ------------------------------------------------------------------ other requests


def test_there_is_one_request_at_a_time() -> None:
    world = server(devices=2)
    preempt(world, behind=True)
    for other in (
        Preempt(job_id=1),
        TakeCheckpointNow(job_id=1),
        Migrate(job_id=1, placement=on("GPU-1", mib=30 * GIB)),
    ):
        assert propose(world, other).rule == "pending"
    assert attempt_of(world).goes_behind and world.jobs[1].target is None


def test_a_move_under_way_excludes_it() -> None:
    world = server(devices=2)
    assert propose(world, Migrate(job_id=1, placement=on("GPU-1", mib=30 * GIB))) is None
    assert propose(world, Preempt(job_id=1, behind=True)).rule == "pending"
    save(world)
    end(world)
    assert world.where(1) == ("GPU-1",) and world.jobs[1].requeued is None


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
def test_a_users_request_comes_first(kind: CheckpointKind) -> None:
    world = server(kind)
    world.step(ev.CheckpointRequested(at=world.now, job_id=1, by="ann"))
    assert propose(world, Preempt(job_id=1, behind=True)).rule == "pending"
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
