"""Jobs inside a job of Slurm: when that goes, and what is never run again."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Exit, Job, OuterJob, OutOfMemory
from radrm.core.words import JobState, Outcome, Runner, StopReason
from radrm.structs import replace
from tests.world import GIB, World, gpus

OUTER = OuterJob("slurm", "c1", "4711", 0, pid=77, start_ticks=5, boot_id="b")


def go(world: World, job: Job, reason: StopReason = StopReason.CANCELLED) -> Job:
    world.step(
        ev.OuterGone(at=world.now, job_id=job.id, reason=reason, why=f"it is {reason.value}")
    )
    return world.jobs[job.id]


def end(world: World, job: Job, **how: object) -> Job:
    serial = world.attempts[job.id, world.jobs[job.id].attempts].serial
    world.step(ev.AttemptEnded(at=world.now, job_id=job.id, serial=serial, **how))
    return world.jobs[job.id]


def test_it_has_a_name_for_ever() -> None:
    assert OUTER.name == "slurm:c1:4711.0"
    assert replace(OUTER, restart=2).name == "slurm:c1:4711.2"
    assert OUTER.label == "Slurm job 4711"


def test_its_step_runs_it() -> None:
    world = World(gpus(2))
    world.submit(GIB)
    world.submit(GIB, outer=OUTER)
    launches = [action for action in world.actions if isinstance(action, act.Launch)]
    assert [launch.runner for launch in launches] == [Runner.OWN, Runner.WAITING]


def test_a_waiting_job_is_cancelled() -> None:
    world = World(gpus(1))
    world.submit(39 * GIB)
    job = go(world, world.submit(39 * GIB, outer=OUTER), StopReason.LOST)
    assert (job.state, job.reason) == (JobState.CANCELLED, "it is lost")
    assert job.outer.gone == "it is lost"


@pytest.mark.parametrize(
    ("reason", "state", "outcome"),
    [
        (StopReason.CANCELLED, JobState.CANCELLED, Outcome.CANCELLED),
        (StopReason.TIMEOUT, JobState.TIMEOUT, Outcome.TIMEOUT),
        (StopReason.PREEMPTED, JobState.CANCELLED, Outcome.PREEMPTED),
        (StopReason.LOST, JobState.FAILED, Outcome.LOST),
    ],
)
@pytest.mark.parametrize("requeue", [False, True])
def test_a_running_job_ends_and_stays_ended(
    reason: StopReason, state: JobState, outcome: Outcome, requeue: bool
) -> None:
    world = World(gpus(1))
    job = go(world, world.submit(GIB, outer=OUTER, requeue=requeue, retries=3), reason)
    assert job.state is state
    assert world.attempts[job.id, 1].outcome is outcome
    world.pass_time(1000)
    assert world.jobs[job.id].attempts == 1


def test_a_lost_attempt_is_never_run_again() -> None:
    world = World(gpus(1))
    job = end(world, world.submit(GIB, outer=OUTER, requeue=True), lost="its runner was killed")
    assert (job.state, job.outcome) == (JobState.FAILED, Outcome.LOST)


def test_while_it_is_there_deaths_are_retried() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, outer=OUTER)
    end(world, job, exits=(Exit(1),), oom=OutOfMemory("cuda"))
    world.pass_time(1)
    assert world.jobs[job.id].attempts == 2
    assert world.jobs[job.id].state is JobState.RUNNING


def test_one_that_died_just_before_does_not_wait_for_nobody() -> None:
    """The end of the attempt came first, but is known only after the outer job has gone."""
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB, outer=OUTER)
    launch = world.actions[-1] if isinstance(world.actions[-1], act.Launch) else None
    serial = launch.serial
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=serial))
    before = world.now
    world.boot_s += 5
    go(world, job, StopReason.PREEMPTED)
    death = {"exits": (Exit(1),), "oom": OutOfMemory("cuda"), "happened": before}
    job = end(world, job, **death)
    assert (job.state, job.reason) == (JobState.CANCELLED, "it is preempted")
    assert world.attempts[job.id, 1].outcome is Outcome.OOM


def test_a_void_launch_after_it_has_gone_ends_the_job() -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB, outer=OUTER)
    go(world, job, StopReason.PREEMPTED)
    serial = world.attempts[job.id, 1].serial
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, serial=serial))
    assert world.jobs[job.id].state is JobState.CANCELLED


def test_the_first_report_counts() -> None:
    world = World(gpus(1))
    world.obey = False
    job = go(world, world.submit(GIB, outer=OUTER), StopReason.TIMEOUT)
    assert go(world, job, StopReason.LOST).reason == "it is timeout"


def test_other_jobs_have_no_outer_job_to_lose() -> None:
    world = World(gpus(1))
    assert go(world, world.submit(GIB)).state is JobState.RUNNING


def test_an_ended_one_is_not_requeued() -> None:
    world = World(gpus(1))
    job = end(world, world.submit(GIB, outer=OUTER), exits=(Exit(0),))
    assert world.requeue(job).state is JobState.COMPLETED


def test_a_restart_keeps_it() -> None:
    world = World(gpus(1))
    world.submit(39 * GIB)
    job = world.submit(39 * GIB, outer=OUTER)
    world.restart()
    assert go(world, job).state is JobState.CANCELLED


def test_its_time_limit_is_slurms() -> None:
    """An administrator may have changed it there."""
    world = World(gpus(1))
    alone = world.submit(GIB, time_limit_s=60.0)
    inside = world.submit(GIB, time_limit_s=60.0, outer=OUTER)
    world.pass_time(120.0)
    assert world.state(alone) is JobState.TIMEOUT
    assert world.state(inside) is JobState.RUNNING
