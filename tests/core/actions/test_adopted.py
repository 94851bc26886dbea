"""`radrm adopt`: a process that runs already becomes a job, and is never ended by radrm itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.constraints.modes import mode_on
from radrm.core.constraints.proposal import check
from radrm.core.lifecycle import stops
from radrm.core.lifecycle.adopted import ENDED, OVER
from radrm.core.proposals import Cancel, Migrate, Preempt, Proposal, SetShares, TakeCheckpointNow
from radrm.core.records import (
    DECLARED,
    Adopted,
    Estimate,
    Exit,
    Job,
    JobSpec,
    Needs,
    Reading,
    Role,
    UnmanagedProcess,
)
from radrm.core.words import Collocation, DeviceKind, JobState, Outcome, Quantity, StopReason
from tests.core.placements import MPS, SAVES, on, propose, refused, server, start
from tests.core.reservations.servers import reserve
from tests.world import GIB, World, gpus

PROCESS = Adopted(4711, 99, "boot", (("GPU-0", 10 * GIB, 11 * GIB),), (4711, 4712))


def read(world: World, *used: tuple[int, int], uuid: str = "GPU-0") -> None:
    """A reading with these unmanaged processes: (pid, MiB)."""
    listed = tuple(UnmanagedProcess(pid, mib) for pid, mib in used)
    total = sum(mib for _, mib in used)
    reading = Reading(uuid, world.now, total, smact=0.3, smact_source="test", unmanaged=listed)
    world.step(ev.ReadingsTaken(at=world.now, readings=(reading,)))


def adopt(
    world: World, adopted: Adopted = PROCESS, known: tuple[Estimate, ...] = (), **spec: Any
) -> Job:
    needs = Needs(gpus=len(adopted.devices))
    fields = {"name": "train", "user": "ann", "uid": 1000, "roles": (Role(needs=needs),), **spec}
    job = Job(world.next_id, f"T{world.next_id}", JobSpec(**fields), world.now)
    job = replace(job, adopted=adopted, estimates=known)
    world.next_id += 1
    world.step(ev.JobSubmitted(at=world.now, job=job))
    return world.jobs[job.id]


def running(**settings: Any) -> World:
    """A world whose job 1 is a process with 10 GiB on GPU 0, and 2 GiB are another's."""
    world = server(*gpus(2), **settings)
    read(world, (4711, 10 * GIB), (5, 2 * GIB))
    adopt(world)
    return world


# ------------------------------------------------------------------ its start


def test_its_memory_counts_once_in_the_step_of_its_adoption() -> None:
    world = server(*gpus(1))
    read(world, (4711, 6 * GIB), (4712, 4 * GIB), (5, 2 * GIB))
    (before,) = world.scheduler.snapshot.devices
    job = adopt(world)
    assert world.state(job) is JobState.RUNNING and world.where(job) == ("GPU-0",)
    (after,) = world.scheduler.snapshot.devices
    assert (before.unmanaged_mib, after.unmanaged_mib) == (12 * GIB, 2 * GIB)
    assert after.reserved_mib == 11 * GIB
    assert before.free_mib is not None and after.free_mib == before.free_mib - GIB
    assert after.reading is not None and [each.pid for each in after.reading.unmanaged] == [5]


def test_a_late_reading_counts_it_twice_rather_than_not_at_all() -> None:
    world = running()
    read(world, (4711, 10 * GIB), (5, 2 * GIB))
    assert world.scheduler.snapshot.devices[0].free_mib == (40 - 12 - 11) * GIB
    world.used[1], world.unmanaged["GPU-0"] = 10 * GIB, 2 * GIB
    world.read()
    assert world.scheduler.snapshot.devices[0].free_mib == (40 - 2 - 11) * GIB


def drained(world: World) -> None:
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))


def reserved(world: World) -> None:
    reserve(world, [0])


def taken(world: World) -> None:
    start(world, world.submit(GIB), on("GPU-0", mib=40 * GIB, mode=Collocation.EXCLUSIVE))


@pytest.mark.parametrize("why", [drained, reserved, taken])
def test_what_is_there_already_is_booked_whatever_is_refused_to_new_jobs(why: Any) -> None:
    world = server(*gpus(1))
    why(world)
    job = world.submit(GIB)
    read(world, (4711, 10 * GIB))
    assert refused(world, job, on("GPU-0")) is not None
    assert world.state(adopt(world)) is JobState.RUNNING


def test_it_counts_for_the_limits_of_its_user() -> None:
    world = server(*gpus(2), user_gpus=1)
    read(world, (4711, 10 * GIB))
    adopt(world)
    assert refused(world, world.submit(GIB), on("GPU-1")) == "limits.gpus"


def test_a_process_has_one_job() -> None:
    world = running()
    again = adopt(world)
    assert (again.state, again.reason) == (JobState.FAILED, "process 4711 belongs to job 1")
    assert world.scheduler.snapshot.devices[0].reserved_mib == 11 * GIB
    read(world, (4711, 10 * GIB), (5, 2 * GIB))
    other = replace(PROCESS, start_ticks=100)  # the pid was given again
    assert world.state(adopt(world, other)) is JobState.RUNNING


def test_it_keeps_no_job_away_that_could_join_it_before() -> None:
    world = server(*gpus(1, mps=True))
    read(world, (4711, 10 * GIB))
    adopt(world)
    world.used[1] = 10 * GIB
    world.read()
    job = world.submit(GIB)
    state = world.scheduler.state
    assert mode_on(state, job, job.spec.roles[0], state.ledgers["GPU-0"]) is MPS
    assert refused(world, job, on("GPU-0", mode=MPS)) is None
    assert refused(world, world.submit(GIB, collocation=Collocation.EXCLUSIVE), on("GPU-0"))


# ------------------------------------------------------------------ a launch that comes to nothing


def held_back() -> World:
    world = server(*gpus(1))
    read(world, (4711, 10 * GIB))
    world.obey = False
    adopt(world)
    return world


def test_a_launch_that_was_void_is_repeated_at_once() -> None:
    world = held_back()
    world.step(ev.LaunchVoided(at=world.now, job_id=1, serial=1))
    assert world.state(1) is JobState.LAUNCHING
    assert [a.serial for a in world.actions if isinstance(a, act.Launch)] == [1, 2]
    world.step(ev.LaunchVoided(at=world.now, job_id=1, serial=2))
    assert world.state(1) is JobState.FAILED and "again and again" in (world.jobs[1].reason or "")
    assert world.scheduler.snapshot.devices[0].reserved_mib == 0


def test_a_server_that_cannot_start_its_watcher_is_told() -> None:
    world = held_back()
    full = ev.AttemptEnded(at=world.now, job_id=1, serial=1, never_started="full", passing=True)
    world.step(full)
    assert world.state(1) is JobState.FAILED
    assert world.jobs[1].reason == "full; its process is unmanaged again"
    refused_now = adopt(world, replace(PROCESS, pid=1))
    assert refused_now.reason == "the server cannot start jobs: full"


# ------------------------------------------------------------------ its end


@pytest.mark.parametrize(
    "code, for_s, state, reason",
    [
        (ENDED, None, JobState.COMPLETED, "process 4711 has ended; its exit status is unknown"),
        (
            OVER,
            3600.0,
            JobState.COMPLETED,
            "its time (--for 1h00m) is over; process 4711 runs on as an unmanaged process",
        ),
        (1, None, JobState.FAILED, "process 4711 cannot be watched any more"),
    ],
)
def test_its_exit_status_is_unknown(
    code: int, for_s: float | None, state: JobState, reason: str
) -> None:
    world = server(*gpus(1))
    read(world, (4711, 10 * GIB))
    adopt(world, replace(PROCESS, for_s=for_s))
    world.end(1, code)
    job, attempt = world.jobs[1], world.attempts[1, 1]
    assert (attempt.exit_code, attempt.tasks[0].exit, attempt.reason) == (None, Exit(), reason)
    assert (job.state, job.exit_code, job.reason) == (state, None, reason)
    assert world.scheduler.snapshot.devices[0].reserved_mib == 0


def test_a_watcher_that_was_killed_is_lost() -> None:
    world = running()
    world.end(1, lost="its runner was killed")
    job = world.jobs[1]
    assert (job.state, job.outcome) == (JobState.FAILED, Outcome.LOST)
    assert job.reason == "its runner was killed; process 4711 is not watched any more"


def test_it_is_not_run_again() -> None:
    world = running()
    world.requeue(1)
    assert world.state(1) is JobState.RUNNING
    world.end(1, ENDED)
    world.requeue(1)
    assert world.state(1) is JobState.COMPLETED


# ------------------------------------------------------------------ nobody ends it but its user


@pytest.mark.parametrize(
    "proposal",
    [
        Preempt(job_id=1),
        Cancel(job_id=1, reason="idle"),
        TakeCheckpointNow(job_id=1),
        Migrate(job_id=1, placement=on("GPU-1")),
        SetShares(job_id=1, shares=on("GPU-0", mib=11 * GIB).shares),
    ],
)
def test_no_planner_touches_it(proposal: Proposal) -> None:
    world = server(*gpus(2))
    read(world, (4711, 10 * GIB))
    adopt(world, checkpoint=SAVES, requeue=True)
    refusal = propose(world, proposal)
    assert refusal is not None and refusal.rule == "adopted"
    assert check(world.scheduler.state, proposal) == replace(refusal, planner=None)


@pytest.mark.parametrize(
    "reason, action",
    [
        (StopReason.CANCELLED, act.Terminate),
        (StopReason.TIMEOUT, act.Kill),
        (StopReason.LOST, act.Kill),
        (StopReason.PREEMPTED, act.Kill),
    ],
)
def test_only_a_cancel_reaches_it(reason: StopReason, action: type[act.Action]) -> None:
    """TERM makes its watcher end the process; KILL ends the watcher alone."""
    world = running()
    world.obey = False
    state = world.scheduler.state
    state.begin(world.now)
    stops.stop(state, state.jobs[1], state.attempts[1], reason)
    assert [type(each) for each in state.step.actions] == [action]


def test_on_a_mig_instance_it_has_the_instance() -> None:
    world = server(*gpus(1, kind=DeviceKind.MIG, profile="1g.5gb"))
    read(world, (4711, 10 * GIB))
    attempt = world.live(adopt(world))
    assert attempt is not None and attempt.placement.collocation is Collocation.MIG


def test_no_cap_is_claimed_for_it() -> None:
    """The driver would limit the watcher's control group, in which the process is not."""
    world = server(*gpus(1, caps=True))
    read(world, (4711, 10 * GIB))
    its = Estimate(Quantity.MEMORY, 11 * GIB, 11 * GIB, DECLARED)
    job = adopt(world, PROCESS, (its,))
    attempt = world.live(job)
    assert attempt is not None and attempt.caps == ()
    (launch,) = (each for each in world.actions if isinstance(each, act.Launch))
    assert launch.cap_mib is None
