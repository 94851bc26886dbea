"""Failures that lie with a GPU's MPS server or driver: the job runs again by itself, twice."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.records import Exit, Job, OutOfMemory
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, JobState, Outcome, StopReason
from tests.world import GIB, World, gpus

WHY = "its MPS server took no new client (CUDA error 807)"
SETTINGS = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)


def on_mps(**settings: Any) -> World:
    return World(gpus(1, mps=True), settings=CoreSettings(smact_warm_s=0, **settings))


def fail(
    world: World,
    job: Job,
    excuse: str,
    fault: bool = False,
    code: int = 1,
    oom: OutOfMemory | None = None,
    beside: bool = False,
) -> Job:
    attempt = world.live(job)
    world.step(
        ev.AttemptEnded(
            at=world.now,
            job_id=job.id,
            serial=attempt.serial,
            exits=(Exit(code),),
            excuse=excuse,
            fault=fault,
            oom=oom,
            beside=beside,
        )
    )
    return world.jobs[job.id]


def test_it_runs_again_twice_and_keeps_its_retries() -> None:
    world = on_mps()
    job = world.submit(GIB, smact=0.1, retries=1)
    for number in (1, 2):
        found = fail(world, job, excuse=WHY)
        assert (found.state, found.passing_used, found.retries_used) == (
            JobState.PENDING,
            number,
            0,
        )
        assert WHY in found.pause.reason
        assert f"{number} of 2 times" in found.pause.reason
        assert not world.live(job), "the server may still be recovering"
        world.pass_time(world.settings.retry_s * number)
        assert world.live(job).placement.collocation is Collocation.MPS
    # Now it is one as any other: its retry, then the end.
    assert fail(world, job, excuse=WHY).retries_used == 1
    world.pass_time(world.settings.retry_s)
    found = fail(world, job, excuse=WHY)
    assert (found.state, found.reason) == (JobState.FAILED, f"exit code 1; {WHY}")
    assert [a.outcome for a in world.attempts.values()] == [Outcome.FAILED] * 4


@pytest.mark.parametrize(("others", "runs"), [(0, 2), (1, 3)])
def test_what_a_neighbour_may_cause_does_not_pass_twice_alone(others: int, runs: int) -> None:
    """vLLM's memory profiling, for one: the first time, the neighbour may have gone unseen."""
    world = on_mps()
    for _ in range(others):
        world.submit(GIB, smact=0.1)
    job = world.submit(GIB, smact=0.1)
    for number in range(1, runs):
        assert fail(world, job, excuse=WHY, beside=True).state is JobState.PENDING
        world.pass_time(world.settings.retry_s * number)
    found = fail(world, job, excuse=WHY, beside=True)
    assert (found.state, found.passing_used) == (JobState.FAILED, runs - 1)


def test_a_restart_keeps_count_and_pause() -> None:
    world = on_mps()
    job = world.submit(GIB, smact=0.1)
    fail(world, job, excuse=WHY)
    world.restart()
    assert world.jobs[job.id].passing_used == 1 and world.live(job) is None
    world.pass_time(world.settings.retry_s)
    assert world.live(job) is not None


def test_after_two_faults_it_runs_on_a_gpu_of_its_own() -> None:
    """One that causes the faults could else end the others a third time, and they would fail."""
    world = World(gpus(2, mps=True), settings=SETTINGS)
    jobs = [world.submit(15 * GIB, smact=0.1) for _ in range(2)]
    for job in jobs:
        fail(world, job, excuse="a fault", fault=True)
    world.pass_time(world.settings.retry_s)
    assert not any(world.jobs[job.id].own_device for job in jobs)
    for job in jobs:
        fail(world, job, excuse="a fault", fault=True)
    world.pass_time(2 * world.settings.retry_s)
    modes = [a.placement.collocation for job in jobs if (a := world.live(job)) is not None]
    assert modes == [Collocation.EXCLUSIVE] * 2
    assert len({world.where(job) for job in jobs}) == 2
    # The one that has caused them now fails alone, by itself; the other does its work.
    assert world.end(jobs[0], 1).state is JobState.FAILED
    assert world.end(jobs[1]).state is JobState.COMPLETED
    again = world.requeue(jobs[0])
    assert (again.passing_used, again.own_device) == (0, False)


def test_who_insists_on_mps_stays_a_client() -> None:
    world = on_mps(passing_retries=1)
    job = world.submit(GIB, smact=0.1, collocation=Collocation.MPS)
    fail(world, job, excuse="a fault", fault=True)
    world.pass_time(world.settings.retry_s)
    assert world.live(job).placement.collocation is Collocation.MPS


def test_it_can_be_switched_off() -> None:
    world = on_mps(passing_retries=0)
    job = world.submit(GIB, smact=0.1)
    assert fail(world, job, excuse=WHY).state is JobState.FAILED


@pytest.mark.parametrize("how", ["completed", "cancelled", "out of memory"])
def test_another_end_comes_first(how: str) -> None:
    world = on_mps()
    job = world.submit(GIB, smact=0.1)
    if how == "completed":
        assert fail(world, job, excuse=WHY, code=0).state is JobState.COMPLETED
    elif how == "cancelled":
        world.obey = False
        world.cancel(job)
        assert fail(world, job, excuse=WHY).state is JobState.CANCELLED
        assert world.attempts[job.id, 1].outcome is Outcome(StopReason.CANCELLED.value)
    else:
        found = fail(world, job, excuse=WHY, oom=OutOfMemory("test"))
        assert (found.oom_count, found.passing_used) == (1, 0)
