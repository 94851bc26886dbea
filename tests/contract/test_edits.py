"""What people change about jobs that are there: hold, edit, requeue, the signal before the end."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import DECLARED, EarlySignal, Estimate, Needs, OutOfMemory, Role
from radrm.core.state.state import LAUNCH_RETRY_S
from radrm.core.words import Collocation, JobState, Outcome, Quantity
from radrm.structs import replace
from tests.world import GIB, World, gpus

# ------------------------------------------------------------------ hold, edit


def test_a_held_job_waits_and_others_pass() -> None:
    world = World(gpus(1))
    blocker = world.submit(30 * GIB, smact=0.9)
    held, other = world.submit(GIB), world.submit(GIB)
    world.hold(held)
    world.end(blocker)
    assert world.state(other) is JobState.RUNNING
    assert world.why(held) == ["held"]
    world.hold(held, False)
    world.end(other)
    assert world.state(held) is JobState.RUNNING


def test_a_waiting_job_moves_with_its_priority() -> None:
    world = World(gpus(1))
    blocker = world.submit(30 * GIB, smact=0.9)
    first, second = world.submit(30 * GIB), world.submit(30 * GIB)
    assert world.edit(second, priority=5) is None
    world.end(blocker)
    assert world.state(second) is JobState.RUNNING
    assert world.state(first) is JobState.PENDING


def test_a_waiting_job_can_ask_for_less_and_start() -> None:
    world = World(gpus(1))
    world.submit(GIB, smact=0.1)
    job = world.submit(GIB, collocation=Collocation.EXCLUSIVE)
    assert world.state(job) is JobState.PENDING
    assert world.edit(job, collocation=Collocation.AUTO) is None
    assert world.state(job) is JobState.RUNNING


def test_what_could_never_run_is_not_made_of_a_job() -> None:
    world = World(gpus(1))
    world.submit(GIB, collocation=Collocation.EXCLUSIVE)
    job = world.submit(GIB)
    refusal = world.edit(job, roles=(Role(needs=Needs(gpus=2)),))
    assert "2 GPUs" in refusal
    assert world.jobs[job.id].spec == job.spec


def test_of_a_running_job_only_the_future_changes() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=100.0)
    refusal = world.edit(job, roles=(Role(needs=Needs(gpus=0)),))
    assert "RUNNING" in refusal
    refusal = world.edit(job, estimates=(Estimate(Quantity.DURATION, 60.0, 60.0, DECLARED),))
    assert "only while it waits" in refusal, "it would change nothing"
    assert world.edit(job, time_limit_s=500.0, retries=2) is None
    world.pass_time(200.0)
    assert world.state(job) is JobState.RUNNING, "the old limit is no more"
    world.pass_time(301.0)
    assert world.state(job) is JobState.TIMEOUT


def test_a_shorter_limit_is_kept_too() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=500.0)
    world.edit(job, time_limit_s=50.0)
    world.pass_time(51.0)
    assert world.state(job) is JobState.TIMEOUT


# ------------------------------------------------------------------ requeue


@pytest.mark.parametrize("code", [0, 1])
def test_one_that_has_ended_runs_again(code: int) -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    world.end(job, code)
    again = world.requeue(job)
    assert (again.state, again.attempts) == (JobState.RUNNING, 2)
    assert (again.outcome, again.exit_code, again.ended) == (None, None, None)
    assert (again.run, again.queued) == (2, world.now), "another run, asked for now"
    assert world.end(job).state is JobState.COMPLETED
    assert not world.scheduler.state.jobs


def test_a_running_one_starts_anew_behind_those_that_wait() -> None:
    world = World(gpus(1))
    job = world.submit(30 * GIB)
    assert world.requeue(job).run == 1
    assert world.attempts[job.id, 1].outcome is Outcome.PREEMPTED
    assert world.state(job) is JobState.RUNNING
    assert world.jobs[job.id].attempts == 2


def test_a_requeued_job_has_its_retries_and_recoveries_again() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, retries=1)
    world.end(job, 1)
    world.pass_time(world.settings.retry_s)
    world.end(job, 1, oom=OutOfMemory("test", 30 * GIB))
    world.end(job, 1)
    assert world.state(job) is JobState.FAILED
    again = world.requeue(job)
    assert (again.retries_used, again.oom_count, again.own_device) == (0, 0, False)
    assert again.memory_floor_mib == 30 * GIB, "what a death has proven stays"
    world.end(job, 1)
    assert world.state(job) is JobState.PENDING


def test_a_record_that_can_never_run_is_refused_before_it_is_queued() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    world.end(job, 1)
    ended = world.jobs[job.id]
    nine = Role("main", 9, 9, Needs(gpus=1))
    too_large = replace(ended, spec=replace(ended.spec, roles=(nine,)))
    assert world.scheduler.refuse_again(ended) is None
    assert world.scheduler.refuse_again(too_large) is not None


def test_a_requeued_array_element_minds_its_arrays_limit() -> None:
    world = World(gpus(1))
    first, second = world.submit_array(2, GIB, at_once=1)
    world.end(first)
    assert world.state(second) is JobState.RUNNING
    assert world.requeue(first).state is JobState.PENDING
    world.end(second)
    assert world.state(first) is JobState.RUNNING


# ------------------------------------------------------------------ the signal before the end


def signals(world: World) -> list[int]:
    return [a.number for a in world.actions if isinstance(a, act.SendSignal)]


def test_a_signal_comes_once_before_the_limit() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=100.0, signal=EarlySignal(10, 30.0))
    world.pass_time(69.0)
    assert signals(world) == []
    world.pass_time(1.5)
    assert signals(world) == [10]
    world.pass_time(10.0)
    assert signals(world) == [10]
    world.pass_time(20.0)
    assert world.state(job) is JobState.TIMEOUT


def test_after_a_restart_it_comes_if_it_has_not() -> None:
    world = World(gpus(1))
    world.submit(GIB, time_limit_s=100.0, signal=EarlySignal(10, 30.0))
    world.restart()
    world.pass_time(75.0)
    assert signals(world) == [10]
    world.restart()
    world.pass_time(1.0)
    assert signals(world) == [10]


def test_a_longer_limit_puts_it_off_and_each_attempt_has_its_own() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=100.0, signal=EarlySignal(10, 30.0), retries=1)
    world.edit(job, time_limit_s=200.0)
    world.pass_time(100.0)
    assert signals(world) == []
    world.pass_time(75.0)
    assert signals(world) == [10]
    world.end(job, 1)
    world.pass_time(world.settings.retry_s)
    world.pass_time(171.0)
    assert signals(world) == [10, 10]


def test_one_that_is_being_stopped_gets_none() -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB, time_limit_s=100.0, signal=EarlySignal(10, 30.0))
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=1))
    world.cancel(job)
    world.pass_time(75.0)
    assert signals(world) == []


# ------------------------------------------------------------------ a server in trouble


def test_what_the_server_cannot_start_now_it_starts_later() -> None:
    world = World(gpus(1))
    world.obey = False
    job, other = world.submit(GIB, smact=0.1), world.submit(GIB, smact=0.1)
    for action in [a for a in world.actions if isinstance(a, act.Launch)]:
        failed = ev.ActionFailed(at=world.now, action=action, reason="disk full", transient=True)
        world.step(failed)
    world.obey = True
    world.read()
    for each in (job, other):
        assert (world.state(each), world.jobs[each.id].attempts) == (JobState.PENDING, 0)
        assert world.why(each) == ["launch"]
    assert not world.reservations
    world.pass_time(LAUNCH_RETRY_S)
    assert [world.state(j) for j in (job, other)] == [JobState.RUNNING] * 2
    assert world.jobs[job.id].attempts == 1
