"""The life of ordinary jobs, driven through `step`."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Job, Needs, OutOfMemory, Role
from radrm.core.settings import CoreSettings
from radrm.core.words import DeviceKind, JobState, Outcome
from radrm.policies.exclusive import Exclusive
from tests.world import GIB, World, gpus


def test_a_job_runs_and_ends_and_what_comes_late_or_again_changes_nothing() -> None:
    world = World()
    job = world.submit(10 * GIB)
    assert world.state(job) is JobState.RUNNING
    done = world.end(job)
    ended = (JobState.COMPLETED, Outcome.COMPLETED, 0)
    assert (done.state, done.outcome, done.exit_code) == ended
    assert not world.reservations
    for event in (
        ev.AttemptEnded(at=world.now, job_id=job.id, serial=1),
        ev.AttemptStarted(at=world.now, job_id=job.id, serial=1),
        ev.CancelRequested(at=world.now, job_id=job.id, by="ann"),
        ev.LaunchVoided(at=world.now, job_id=99, serial=1),
    ):
        assert world.step(event).changed == ()


def test_the_recovery_queue_comes_first_and_gets_an_idle_device() -> None:
    world = World(gpus(1))
    low = world.submit(4 * GIB, smact=0.2)
    world.submit(20 * GIB, smact=0.2)
    urgent = world.submit(30 * GIB, priority=50)
    world.used[low.id] = 3 * GIB
    world.pass_time(1.0)
    died = world.end(low, 1, oom=OutOfMemory("test", requested_mib=6 * GIB))
    assert died.state is JobState.RECOVERING
    assert died.memory_floor_mib == 9 * GIB
    assert world.why(low) == ["not idle", "count"]
    world.end(2)
    assert world.state(low) is JobState.RUNNING, "recovery comes before priority"
    launch = next(a for a in reversed(world.actions) if isinstance(a, act.Launch))
    assert (launch.job_id, launch.cap_mib, launch.shared) == (low.id, None, True)
    assert world.state(urgent) is JobState.PENDING
    done = world.end(low)
    assert (done.state, done.attempts, done.oom_count) == (JobState.COMPLETED, 2, 1)


def test_recovery_is_bounded() -> None:
    world = World(gpus(1))
    job = world.submit(4 * GIB)
    for _ in range(3):
        world.end(job, 1, oom=OutOfMemory("test"))
        assert world.state(job) is JobState.RUNNING
    failed = world.end(job, 1, oom=OutOfMemory("test"))
    assert (failed.state, failed.outcome, failed.oom_count) == (JobState.FAILED, Outcome.OOM, 4)
    assert "recovery limit (3) reached" in (failed.reason or "")


def test_cancel_asks_then_kills() -> None:
    world = World(gpus(1))
    job = world.submit(1000)
    world.obey = False
    world.step(ev.CancelRequested(at=world.now, job_id=job.id, by="ann"))
    assert isinstance(world.actions[-1], act.Terminate)
    assert world.state(job) is JobState.STOPPING
    world.pass_time(world.settings.grace_s + 0.1)
    assert any(isinstance(a, act.Kill) for a in world.actions)
    done = world.end(job, signal=9)
    assert (done.state, done.outcome, done.exit_code) == (
        JobState.CANCELLED,
        Outcome.CANCELLED,
        137,
    )
    assert done.reason == "cancelled by ann"


def test_a_waiting_job_is_cancelled_at_once() -> None:
    world = World(gpus(1), policy=Exclusive())
    world.submit(1000)
    job = world.submit(1000)
    world.step(ev.CancelRequested(at=world.now, job_id=job.id, by="ann"))
    assert world.state(job) is JobState.CANCELLED


def test_a_time_limit_ends_a_job() -> None:
    world = World(gpus(1))
    job = world.submit(1000, time_limit_s=60.0)
    assert world.decisions[-1].wake_at == world.boot_s + 60.0
    world.pass_time(61)
    assert (world.jobs[job.id].state, world.jobs[job.id].outcome) == (
        JobState.TIMEOUT,
        Outcome.TIMEOUT,
    )


@pytest.mark.parametrize("requeue, state", [(False, JobState.FAILED), (True, JobState.RUNNING)])
def test_a_lost_attempt_reruns_only_if_asked(requeue: bool, state: JobState) -> None:
    world = World(gpus(1))
    job = world.submit(1000, requeue=requeue)
    assert world.end(job, lost="its runner was killed").state is state
    assert world.attempts[job.id, 1].outcome is Outcome.LOST


def test_a_void_launch_costs_nothing() -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(1000)
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, serial=1))
    world.obey = True
    world.read()
    assert world.jobs[job.id].attempts == 1
    assert world.live(job).serial == 2


def test_held_and_estimating_jobs_wait_outside_the_queue() -> None:
    world = World(gpus(1))
    slow = world.submit(1000, estimating=True)
    quick = world.submit(1000)
    assert world.why(slow) == ["estimating"]
    assert world.state(quick) is JobState.RUNNING
    assert any(isinstance(a, act.EstimateJob) for a in world.actions)
    world.step(ev.HoldRequested(at=world.now, job_id=slow.id, held=True))
    assert world.why(slow) == ["held"]
    world.step(ev.EstimateReady(at=world.now, job_id=slow.id, estimates=()))
    world.end(quick)
    assert world.state(slow) is JobState.PENDING
    world.step(ev.HoldRequested(at=world.now, job_id=slow.id, held=False))
    assert world.state(slow) is JobState.RUNNING


def test_a_restart_forgets_nothing() -> None:
    world = World(gpus(1))
    first = world.submit(30 * GIB)
    second = world.submit(30 * GIB)
    world.used[first.id] = 20 * GIB
    world.pass_time(1.0)
    world.restart()
    assert world.state(first) is JobState.RUNNING
    assert world.why(second)[0] == "memory", "what was reserved is still reserved"
    world.end(first)
    assert world.attempts[first.id, 1].peak_mib == 20 * GIB
    assert world.state(second) is JobState.RUNNING


def test_a_vanished_device_is_refused_and_its_job_goes_on() -> None:
    world = World(gpus(2))
    job, both = world.submit(1000), world.devices
    world.devices = both[1:]
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    assert world.state(job) is JobState.RUNNING
    assert world.where(world.submit(1000)) == ("GPU-1",)
    world.end(job)
    seen = {each.device.uuid: each for each in world.scheduler.snapshot.devices}
    assert seen["GPU-0"].vanished, "its administrator sees what is missing"
    assert (seen["GPU-0"].reading, seen["GPU-0"].free_mib) == (None, None), "nothing is known of it"
    world.devices = both
    world.step(ev.DevicesSeen(at=world.now, devices=both))
    world.read()
    assert world.where(world.submit(1000)) == ("GPU-0",)


# ------------------------------------------------------------------ jobs without a GPU


def gpuless(world: World) -> Job:
    return world.submit(roles=(Role(needs=Needs(gpus=0)),))


def test_a_job_without_a_gpu_does_not_wait_behind_one_that_wants_one() -> None:
    world = World(gpus(1))
    world.submit(30 * GIB, smact=0.9)
    waiting = world.submit(30 * GIB)
    job = gpuless(world)
    assert world.state(waiting) is JobState.PENDING
    assert world.state(job) is JobState.RUNNING


def test_so_many_jobs_without_a_gpu_run_at_a_time() -> None:
    world = World(
        gpus(1), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0, gpuless_at_once=2)
    )
    jobs = [gpuless(world) for _ in range(4)]
    assert [world.state(j) for j in jobs[2:]] == [JobState.PENDING] * 2
    assert world.why(jobs[2]) == world.why(jobs[3]) == ["gpuless"]
    other = world.submit(GIB)
    assert world.state(other) is JobState.RUNNING, "they keep nobody else waiting"
    world.end(jobs[0])
    assert [world.state(j) for j in jobs[2:]] == [JobState.RUNNING, JobState.PENDING]


# ------------------------------------------------------------------ what vanishes, whose turn it is


@pytest.mark.parametrize("requeue", [False, True])
def test_a_job_whose_mig_instance_is_cut_away_is_lost(requeue: bool) -> None:
    world = World(gpus(2, 5 * GIB, kind=DeviceKind.MIG, profile="1g.5gb"))
    job = world.submit(GIB, requeue=requeue)
    other = world.submit(GIB)
    assert world.where(job) == ("GPU-0",)
    world.devices = world.devices[1:]
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    assert world.attempts[job.id, 1].outcome is Outcome.LOST
    assert world.state(job) is (JobState.PENDING if requeue else JobState.FAILED)
    assert "vanished" in (world.jobs[job.id].reason or "") or requeue
    assert world.state(other) is JobState.RUNNING
    assert {r.device for r in world.reservations.values()} == {"GPU-1"}


def test_who_is_alone_has_all_the_time() -> None:
    world = World(gpus(1, mps=True), settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0))
    world.submit(GIB, smact=0.1)
    world.pass_time(10 * world.settings.mps_cohort_s)
    assert world.state(world.submit(GIB, smact=0.1)) is JobState.RUNNING
