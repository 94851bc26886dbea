"""A user's requeue: a job that can save does so first; one that has done its work begins anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.lifecycle.asking import stop
from radrm.core.proposals import Migrate, Preempt
from radrm.core.records import Exit, Job, Progress
from radrm.core.words import ActionKind, CheckpointKind, JobState, Outcome, StopReason
from radrm.structs import replace
from tests.core.lifecycle.test_outer_job import OUTER
from tests.core.placements import on, propose
from tests.core.saving.server import (
    BAD,
    BY_TERM,
    DONE,
    EXIT,
    FAILED,
    KILLED,
    LEFT,
    LONG_S,
    LOST,
    OK,
    OOM,
    PATIENCE_S,
    SIGNAL,
    UNKNOWN,
    ask,
    end,
    save,
    saving,
)
from tests.world import World

NONE = CheckpointKind.NONE


def asked(world: World) -> bool:
    return isinstance(world.actions[-1], act.TakeCheckpoint)


def stopped(world: World) -> bool:
    return any(isinstance(each, act.Terminate) for each in world.actions)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("kind", "how"), [(SIGNAL, BY_TERM), (EXIT, OK), (EXIT, BAD)])
def test_a_running_job_saves_first(kind: CheckpointKind, how: Exit, restart: bool) -> None:
    world, job = saving(kind, time_limit_s=2 * LONG_S)
    world.requeue(job)
    assert asked(world) and world.state(job) is JobState.RUNNING
    world.pass_time(5.0)
    if restart:
        world.restart()
    save(world, job, 0.5)
    assert stopped(world) is (kind is SIGNAL), "one that leaves by itself is not stopped"
    job = end(world, job, how)
    assert (world.attempts[1, 1].outcome, job.state) == (Outcome.PREEMPTED, JobState.LAUNCHING)
    assert job.saved.work_done == 0.5 and job.anew == 0
    assert job.limit_s == LONG_S - 5.0, "what it continues counts on"
    assert job.pause is None


@dataclass(frozen=True)
class End:
    """How a job ended that was to save and return, and what was known then."""

    kind: CheckpointKind
    how: Exit
    outcome: Outcome = LEFT
    state: JobState = JobState.LAUNCHING
    done: float | None = None
    file: bool = False
    said: dict[str, Any] = field(default_factory=dict)
    before_s: float = 0.0
    """Seconds from the end to the request: the end was not known yet."""


ENDS = {
    "exit: an error, and a newer file": End(EXIT, BAD, file=True),
    "exit: an error": End(EXIT, BAD),
    "exit: killed": End(EXIT, KILLED),
    "exit: lost": End(EXIT, UNKNOWN, said={"lost": "its runner was killed"}),
    "exit: out of memory": End(EXIT, BAD, said={"oom": OOM}),
    "exit: left": End(EXIT, OK),
    "exit: all done": End(EXIT, OK, DONE, JobState.COMPLETED, done=1.0),
    "exit: all done, and an error": End(EXIT, BAD, done=1.0),
    "signal: an error": End(SIGNAL, BAD),
    "signal: killed": End(SIGNAL, KILLED),
    "signal: lost": End(SIGNAL, UNKNOWN, said={"lost": "its runner was killed"}),
    "signal: nothing known": End(SIGNAL, OK),
    "signal: all done": End(SIGNAL, OK, DONE, JobState.COMPLETED, done=1.0),
    "signal: half done": End(SIGNAL, OK, done=0.5),
    "a failure of the server": End(
        SIGNAL, OK, FAILED, JobState.FAILED, said={"failure": "no disk"}
    ),
    "failed before the request": End(SIGNAL, BAD, FAILED, JobState.FAILED, before_s=5.0),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=list(ENDS))
def test_whatever_its_end_it_returns_unless_its_work_is_done(case: End) -> None:
    world, job = saving(case.kind, time_limit_s=2 * LONG_S)
    now, early_s = world.now, case.before_s
    ended = replace(now, boot_s=now.boot_s - early_s, wall_s=now.wall_s - early_s)
    world.requeue(job)
    world.pass_time(5.0)
    if case.done is not None:
        world.report(job, work_done=case.done)
    happened = {"happened": ended} if case.before_s else {}
    job = end(world, job, case.how, saved_since_asked=case.file, **case.said, **happened)
    attempt = world.attempts[1, 1]
    assert (attempt.outcome, job.state) == (case.outcome, case.state)
    assert (job.requeued is not None) is (case.outcome is LEFT)
    if case.outcome is LEFT:
        assert attempt.reason and "requeued by ann" in attempt.reason
        assert job.limit_s == LONG_S - 5.0, "it may have saved what nobody knows of"


def test_in_slurms_job_a_lost_one_does_not_return() -> None:
    world, job = saving(EXIT, outer=OUTER)
    world.requeue(job)
    job = end(world, job, UNKNOWN, lost="its runner was killed")
    assert (world.attempts[1, 1].outcome, job.state) == (LOST, JobState.FAILED)


@pytest.mark.parametrize("how", [OK, BAD])
def test_one_that_an_earlier_daemon_may_have_asked_returns(how: Exit) -> None:
    """It has reset its handler to leave, so the next daemon asks in vain."""
    world, job = saving(EXIT)
    world.requeue(job)
    world.pass_time(1.0)
    world.restart()
    (asked,) = [a for a in world.actions if isinstance(a, act.TakeCheckpoint)][-1:]
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="nobody handles TERM"))
    job = end(world, job, how)
    assert (world.attempts[1, 1].outcome, job.state) == (Outcome.PREEMPTED, JobState.LAUNCHING)


@pytest.mark.parametrize("how", [BAD, KILLED])
def test_one_that_was_to_save_and_runs_on_may_fail_later(how: Exit) -> None:
    world, job = saving(EXIT)
    world.requeue(job)
    world.pass_time(PATIENCE_S)
    assert end(world, job, how).state is JobState.FAILED


def test_one_that_is_saving_anyway_returns_when_it_has() -> None:
    world, job = saving(SIGNAL)
    ask(world)
    before = len(world.actions)
    world.requeue(job)
    assert len(world.actions) == before, "one request is enough"
    save(world, job, 0.5)
    assert world.state(job) is JobState.STOPPING


@pytest.mark.parametrize(("kind", "from_start"), [(NONE, False), (NONE, True), (SIGNAL, True)])
def test_any_other_is_stopped_at_once(kind: CheckpointKind, from_start: bool) -> None:
    world, job = saving(kind)
    world.requeue(job, from_start)
    assert world.state(job) is JobState.STOPPING and stopped(world)
    job = end(world, job, BY_TERM)
    assert job.state is JobState.LAUNCHING and job.requeued is not None


def test_one_that_moves_is_requeued_in_place_of_that() -> None:
    world, job = saving(SIGNAL)
    ask(world, Migrate(job_id=1, placement=on("GPU-1")))
    world.requeue(job)
    save(world, job, 0.5)
    job = end(world, job, BY_TERM)
    assert job.target is None and job.moves == 0 and job.requeued is not None


@pytest.mark.parametrize("from_start", [False, True])
def test_a_stop_that_becomes_a_loss_is_retried_as_the_requeue_asked(from_start: bool) -> None:
    world, job = saving(SIGNAL, retries=1)
    save(world, job, 0.4)
    world.requeue(job, from_start)
    save(world, job, 0.5)
    state = world.scheduler.state
    stop(state, state.jobs[1], state.attempts[1], StopReason.LOST, "its GPU vanished")
    job = end(world, job, BY_TERM)
    assert (world.attempts[1, 1].outcome, job.state) == (LOST, JobState.PENDING)
    assert (job.retries_used, job.anew) == (1, int(from_start))
    assert (job.saved is None) is from_start and job.requeued is not None


@pytest.mark.parametrize("moves", [False, True])
def test_from_the_start_nothing_that_was_saved_counts(moves: bool) -> None:
    world, job = saving(SIGNAL)
    save(world, job, 0.4)
    if moves:
        propose(world, Preempt(job_id=1, behind=True))
    world.requeue(job, from_start=True)
    late = Progress(world.now, work_done=0.5)
    job = end(world, job, BY_TERM, saved=late, saved_since_asked=True)
    assert (job.saved, job.saved_at, job.progress, job.anew) == (None, None, None, 1)
    live = world.live(job)
    assert live.work_begun == 0.0 and not live.asked(ActionKind.CHECKPOINT)


@pytest.mark.parametrize(
    ("done", "how", "from_start", "anew"),
    [
        (1.0, OK, False, 1),
        (0.5, OK, False, 0),  # it ended with 0, and has work left
        (None, OK, False, 1),  # nothing says that work is left
        (1.0, BAD, False, 0),
        (0.5, BAD, False, 0),
        (0.5, BAD, True, 1),
        (None, OK, True, 1),
    ],
)
def test_a_job_whose_work_is_done_begins_anew(
    done: float | None, how: Exit, from_start: bool, anew: int
) -> None:
    world, job = saving(SIGNAL)
    if done is not None:
        world.report(job, work_done=done)
    save(world, job, done)
    ended: Job = end(world, job, how)
    assert ended.state.final
    job = world.requeue(ended, from_start)
    assert (job.anew, job.saved is None) == (anew, bool(anew))
    assert world.live(job).began.work_done == (0.0 if anew else done)


def test_a_requeue_of_a_job_that_is_launched_stops_it() -> None:
    world, job = saving(SIGNAL)
    world.requeue(job, from_start=True)
    end(world, job, BY_TERM)
    assert world.state(job) is JobState.LAUNCHING
    world.requeue(job)
    assert world.state(job) is JobState.STOPPING
    void = ev.LaunchVoided(at=world.now, job_id=job.id, serial=world.live(job).serial)
    world.step(void)
    assert world.jobs[1].anew == 1 and world.jobs[1].requeued is not None
