"""Jobs that are asked to save their work: how their attempts end, and what is kept of them."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Preempt, Proposal, TakeCheckpointNow
from radrm.core.records import Checkpoint, Exit, Progress
from radrm.core.words import JobState, Outcome, ReservationKind
from tests.core.placements import CORE, on, propose
from tests.core.saving.server import (
    BAD,
    BY_TERM,
    DONE,
    EXIT,
    LEFT,
    LONG_S,
    OK,
    PATIENCE_S,
    SIGNAL,
    ask,
    end,
    save,
    saving,
)
from tests.world import GIB, World, gpus

# ------------------------------------------------------------------ how an attempt ends


@pytest.mark.parametrize(
    ("at_s", "done", "then_s", "outcome"),
    [
        (1.0, 0.001, LONG_S, LEFT),  # its first step was fast, and says nothing of the others
        (10.0, 0.05, LONG_S, LEFT),
        (1000.0, 0.3, 3000.0, DONE),
        (1000.0, 0.1, 3000.0, LEFT),
        (1000.0, 0.99, 5.0, LEFT),
    ],
)
def test_an_early_report_says_little_of_the_rest(
    at_s: float, done: float, then_s: float, outcome: Outcome
) -> None:
    world = World(gpus(1), settings=CORE)
    job = world.submit(GIB, smact=0.1, checkpoint=Checkpoint(SIGNAL))
    world.obey = False
    world.pass_time(at_s)
    world.report(job, work_done=done)
    world.pass_time(then_s)
    ask(world)
    world.pass_time(1.0)
    end(world, job, OK)
    assert world.attempts[1, 1].outcome is outcome


def test_what_earlier_attempts_have_done_is_no_speed() -> None:
    world, job = saving(SIGNAL)
    propose(world, Preempt(job_id=1))
    world.pass_time(1.0)
    save(world, job, 0.5)
    end(world, job, BY_TERM)
    world.step(ev.AttemptStarted(at=world.now, job_id=1, serial=2))
    world.pass_time(100.0)
    world.report(job, work_done=0.51)
    world.pass_time(300.0)
    ask(world)
    world.pass_time(1.0)
    end(world, job, OK)
    assert world.attempts[1, 2].outcome is LEFT, "it did a hundredth of its work in 100 s"


def test_what_was_saved_before_stays_without_a_proof() -> None:
    world, job = saving(EXIT)
    save(world, job, 0.4)
    before = world.jobs[1]
    world.pass_time(5.0)
    world.report(job, work_done=0.95)
    ask(world)
    world.pass_time(5.0)
    job = end(world, job, OK)
    assert (job.saved, job.saved_at, job.progress) == (before.saved, before.saved_at, before.saved)


def test_a_newer_file_tells_when_but_not_how_much_was_saved() -> None:
    world, job = saving(EXIT)
    save(world, job, 0.4)
    known = world.jobs[1].saved
    world.pass_time(5.0)
    ask(world)
    world.pass_time(5.0)
    job = end(world, job, OK, saved=known, saved_since_asked=True)
    assert (job.saved, job.saved_at) == (known, world.now)


def test_a_file_of_a_killed_job_proves_nothing() -> None:
    world, job = saving(EXIT)
    propose(world, Preempt(job_id=1))
    world.pass_time(5.0)
    assert end(world, job, Exit(signal=9), saved_since_asked=True).saved_at is None
    world, job = saving(EXIT)
    propose(world, Preempt(job_id=1))
    world.pass_time(5.0)
    assert end(world, job, Exit(143), saved_since_asked=True).saved_at == world.now
    world, job = saving(EXIT)
    propose(world, Preempt(job_id=1))
    world.pass_time(5.0)
    assert end(world, job, Exit(143)).saved_at is None, "without a file nothing is known"


def test_an_older_file_is_no_news() -> None:
    world, job = saving(SIGNAL)
    old = Progress(world.now, work_done=0.2)
    world.pass_time(5.0)
    save(world, job, 0.4)
    known = world.jobs[1]
    again = ev.CheckpointTaken(at=world.now, job_id=1, serial=1, progress=old, happened=old.at)
    world.step(again)
    assert world.jobs[1].saved == known.saved
    assert end(world, job, BAD, saved=old).saved == known.saved


# ------------------------------------------------------------------ requests


def test_a_request_that_nobody_heard_counts_for_nothing() -> None:
    world, job = saving(EXIT)
    asked = ask(world)
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="nobody handles TERM"))
    attempt = world.live(1)
    assert (attempt.checkpoint_asked, attempt.checkpoint_failed) == (None, "nobody handles TERM")
    assert end(world, job, OK).state is JobState.COMPLETED


def test_an_earlier_request_still_counts() -> None:
    world, job = saving(EXIT)
    ask(world)
    first = world.now
    world.pass_time(PATIENCE_S)
    world.pass_time(100.0)
    asked = ask(world)
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="nobody handles TERM"))
    assert world.live(1).checkpoint_asked == first
    assert end(world, job, OK).state is JobState.LAUNCHING


def asked_in_vain(world: World) -> None:
    """Restart: the earlier daemon has asked. The job leaves, so nobody hears the next one ask."""
    world.pass_time(1.0)
    world.restart()
    (asked,) = [a for a in world.actions if isinstance(a, act.TakeCheckpoint)][-1:]
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="nobody handles TERM"))


@pytest.mark.parametrize(
    ("proposal", "where", "moves"),
    [
        (TakeCheckpointNow(job_id=1), ("GPU-0",), 0),
        (Migrate(job_id=1, placement=on("GPU-1")), ("GPU-1",), 1),
    ],
)
def test_what_an_earlier_daemon_may_have_asked_for_still_counts(
    proposal: Proposal, where: tuple[str, ...], moves: int
) -> None:
    world, job = saving(EXIT)
    ask(world, proposal)
    first = world.now
    asked_in_vain(world)
    assert world.live(1).checkpoint_asked == first
    job = end(world, job, OK)
    assert (job.state, job.moves, world.where(1)) == (JobState.LAUNCHING, moves, where)


def test_what_an_earlier_daemon_may_have_asked_for_is_given_up_at_its_deadline() -> None:
    world, _ = saving(EXIT)
    ask(world, Migrate(job_id=1, placement=on("GPU-1")))
    asked_in_vain(world)
    world.pass_time(PATIENCE_S)
    attempt = world.live(1)
    assert not attempt.pending and attempt.checkpoint_failed
    assert world.jobs[1].target is None and world.state(1) is JobState.RUNNING
    assert not [r for r in world.stored.values() if r.kind is ReservationKind.MIGRATION]


def test_one_that_saves_and_stays_is_stopped_at_the_deadline_to_migrate() -> None:
    world, job = saving(EXIT)
    ask(world, Migrate(job_id=1, placement=on("GPU-1")))
    save(world, job, 0.5)
    assert world.state(1) is JobState.RUNNING, "it leaves by itself: a second TERM could hurt it"
    world.pass_time(PATIENCE_S)
    assert world.state(1) is JobState.STOPPING
    end(world, job, BY_TERM)
    assert world.where(1) == ("GPU-1",) and world.jobs[1].moves == 1


def test_one_that_saves_and_stays_goes_on_without_a_migration() -> None:
    world, job = saving(EXIT)
    ask(world)
    save(world, job, 0.5)
    world.pass_time(PATIENCE_S)
    attempt = world.live(1)
    assert not attempt.pending and attempt.checkpoint_failed is None
    assert world.state(1) is JobState.RUNNING


def test_one_that_leaves_goes_on_at_the_target() -> None:
    world, job = saving(EXIT)
    ask(world, Migrate(job_id=1, placement=on("GPU-1")))
    world.restart()
    save(world, job, 0.5)
    job = end(world, job, OK)
    assert (world.where(1), job.moves, job.state) == (("GPU-1",), 1, JobState.LAUNCHING)
    assert not [r for r in world.stored.values() if r.kind is ReservationKind.MIGRATION]


def test_one_that_completes_while_it_is_asked_holds_nothing() -> None:
    world, job = saving(SIGNAL)
    ask(world, Migrate(job_id=1, placement=on("GPU-1")))
    world.report(job, work_done=1.0)
    assert end(world, job, OK).state is JobState.COMPLETED
    assert not world.stored and world.jobs[1].moves == 0


# ------------------------------------------------------------------ the time limit


@pytest.mark.parametrize("restart", [False, True])
def test_the_time_limit_counts_on_after_a_migration(restart: bool) -> None:
    world, job = saving(SIGNAL, time_limit_s=LONG_S + 100.0)
    ask(world, Migrate(job_id=1, placement=on("GPU-1")))
    save(world, job, 0.5)
    end(world, job, BY_TERM)
    if restart:
        world.restart()
    world.step(ev.AttemptStarted(at=world.now, job_id=1, serial=2))
    assert world.jobs[1].limit_s == 100.0
    world.pass_time(99.0)
    assert world.state(1) is JobState.RUNNING
    world.pass_time(1.0)
    assert world.state(1) is JobState.STOPPING


def test_an_attempt_that_saved_nothing_uses_nothing_of_the_limit() -> None:
    world, job = saving(SIGNAL, time_limit_s=2 * LONG_S)
    propose(world, Preempt(job_id=1))
    assert end(world, job, BY_TERM).limit_s == 2 * LONG_S


@pytest.mark.parametrize(("from_start", "left_s"), [(False, LONG_S - 100.0), (True, 2 * LONG_S)])
def test_a_users_requeue_has_the_whole_limit_only_from_the_start(
    from_start: bool, left_s: float
) -> None:
    world, job = saving(SIGNAL, time_limit_s=2 * LONG_S)
    propose(world, Preempt(job_id=1))
    save(world, job, 0.5)
    assert end(world, job, BY_TERM).limit_s == LONG_S
    world.step(ev.AttemptStarted(at=world.now, job_id=1, serial=2))
    world.pass_time(100.0)
    world.requeue(1, from_start)
    save(world, job, 0.7, serial=2)
    job = end(world, world.jobs[1], BY_TERM)
    assert job.limit_s == left_s and job.requeued is not None
    assert job.requeued.used_s == job.used_s, "a time slot begins anew behind all others"
