"""A user's requeue: a job that can save does so first; one that has done its work begins anew."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Preempt
from radrm.core.records import Exit, Job, Progress
from radrm.core.words import ActionKind, CheckpointKind, JobState, Outcome
from tests.core.placements import propose
from tests.core.saving.server import (
    BAD,
    BY_TERM,
    EXIT,
    LONG_S,
    OK,
    PATIENCE_S,
    SIGNAL,
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
    assert job.saved is not None and job.saved.work_done == 0.5 and job.anew == 0
    assert job.limit_s == 2 * LONG_S and job.pause is None and job.requeued is None


def test_one_that_does_not_save_runs_on() -> None:
    world, job = saving(SIGNAL)
    world.requeue(job)
    world.pass_time(PATIENCE_S)
    live = world.live(job)
    assert live is not None and live.checkpoint_failed and world.state(job) is JobState.RUNNING


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
    assert end(world, job, BY_TERM).state is JobState.LAUNCHING


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
    assert live is not None and live.work_begun == 0.0 and not live.asked(ActionKind.CHECKPOINT)


@pytest.mark.parametrize(
    ("done", "how", "from_start", "anew"),
    [
        (1.0, OK, False, 1),
        (0.5, OK, False, 0),  # it ended with 0, and has work left
        (None, OK, False, 0),
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
    assert (job.anew, job.saved is None) == (anew, bool(anew) or done is None)
    live = world.live(job)
    assert live is not None and live.began is not None
    assert live.began.work_done == (0.0 if anew else done)


def test_a_requeue_of_a_job_that_is_launched_stops_it() -> None:
    world, job = saving(SIGNAL)
    world.requeue(job, from_start=True)
    end(world, job, BY_TERM)
    assert world.state(job) is JobState.LAUNCHING
    world.requeue(job)
    assert world.state(job) is JobState.STOPPING
    live = world.live(job)
    assert live is not None
    void = ev.LaunchVoided(at=world.now, job_id=job.id, serial=live.serial)
    world.step(void)
    assert world.jobs[1].anew == 1
