"""A launch and a question to the estimators that nobody answers."""

from __future__ import annotations

from collections.abc import Callable

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.words import ActionKind, JobState, Outcome
from tests.core.actions.silent import (
    each_restart,
    until_due,
)
from tests.core.placements import CORE
from tests.world import GIB, World, gpus


@each_restart
def test_a_launch_that_is_never_answered_is_stopped_as_lost(
    restart: Callable[[World], None],
) -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB)
    assert until_due(world, ActionKind.LAUNCH) == CORE.action_limit_s
    world.pass_time(CORE.action_limit_s - 1.0)
    restart(world)
    assert world.state(job) is JobState.LAUNCHING
    world.pass_time(1.0)
    assert isinstance(world.actions[-1], act.Terminate)
    world.step(ev.AttemptStarted(at=world.now, job_id=1, serial=1))
    assert world.state(job) is JobState.STOPPING, "it is late"
    world.end(job, signal=15)
    assert world.state(job) is JobState.FAILED
    assert world.attempts[1, 1].outcome is Outcome.LOST
    assert world.jobs[1].reason == "its launch had no answer within 5m00s"


def test_what_has_waited_for_the_store_has_its_whole_time_from_then_on() -> None:
    """The host does nothing before a decision is on disk, which can be full for hours."""
    world = World(gpus(2))
    running = world.submit(GIB)
    world.obey = False
    job = world.submit(GIB)
    world.cancel(running)
    world.boot_s += 10 * CORE.action_limit_s
    world.step(ev.ActionsDelayed(at=world.now))
    world.pass_time(CORE.grace_s - 1.0)
    assert not any(isinstance(action, act.Kill) for action in world.actions)
    world.pass_time(1.0)
    assert isinstance(world.actions[-1], act.Kill)
    assert until_due(world, ActionKind.LAUNCH, job.id) == CORE.action_limit_s - CORE.grace_s
    world.pass_time(CORE.action_limit_s - CORE.grace_s - 1.0)
    assert world.state(job) is JobState.LAUNCHING
    world.pass_time(1.0)
    assert world.state(job) is JobState.STOPPING


def test_a_launch_that_failed_after_its_start_is_no_end() -> None:
    world = World(gpus(1))
    world.submit(GIB)
    launch = next(a for a in world.actions if isinstance(a, act.Launch))
    world.step(ev.ActionFailed(at=world.now, action=launch, reason="no"))
    assert world.state(1) is JobState.RUNNING


# ------------------------------------------------------------------ estimates


def test_a_job_goes_on_when_the_estimators_do_not_answer() -> None:
    world = World(gpus(1))
    job = world.submit(estimating=True)
    world.pass_time(world.settings.estimate_limit_s - 1.0)
    assert world.state(job) is JobState.PENDING
    assert world.decisions[-1].wake_at == world.boot_s + 1.0
    world.pass_time(1.0)
    assert world.state(job) is JobState.RUNNING
    assert world.jobs[1].estimate_notes == ("the estimators gave no answer within 10m00s",)
    before = world.jobs[1]
    world.step(ev.EstimateReady(at=world.now, job_id=1, estimates=()))
    assert world.jobs[1] == before, "a late answer"


def test_a_restart_asks_the_estimators_again() -> None:
    world = World(gpus(1))
    world.submit(estimating=True)
    world.pass_time(2 * CORE.estimate_limit_s / 3)
    world.restart()
    assert [a for a in world.actions if isinstance(a, act.EstimateJob)] == 2 * [
        act.EstimateJob(job_id=1)
    ]
    world.pass_time(2 * CORE.estimate_limit_s / 3)
    assert world.jobs[1].estimating, "its time begins anew"
    world.pass_time(CORE.estimate_limit_s / 3)
    assert world.state(1) is JobState.RUNNING
