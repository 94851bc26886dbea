"""A job that died of GPU out-of-memory: on an idle GPU again, which others may join once its
memory has settled (`exclusive`, as published), or on one that is its own (`own-device`)."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core.records import Device, Job, OutOfMemory
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, JobState, Queue
from radrm.policies.magm import Magm
from radrm.policies.rr import RoundRobin
from radrm.recovery.exclusive import IdleDevice
from radrm.recovery.own_device import OwnDevice
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, overcommit=True)
MPS = gpus(1, mps=True)
TIMESLICE = gpus(1)


def dies(world: World, job: Job, peak_mib: int, wanted_mib: int = GIB) -> Job:
    world.used[job.id] = peak_mib
    world.pass_time(1.0)
    return world.end(job, 1, oom=OutOfMemory("test", requested_mib=wanted_mib))


def recovered(devices: tuple[Device, ...], **parts: Any) -> tuple[World, Job]:
    """A job that has died once and runs again, alone on its device."""
    world = World(devices, settings=CORE, **parts)
    job = world.submit(4 * GIB, smact=0.1)
    job = dies(world, job, 4 * GIB, 16 * GIB)
    assert (job.state, job.queue) == (JobState.RUNNING, Queue.RECOVERY)
    return world, job


def settles(world: World, job: Job, peak_mib: int) -> None:
    world.used[job.id] = peak_mib
    world.pass_time(1.0)
    world.pass_time(world.settings.settle_s + 1)


def reserved(world: World, job: Job) -> int | None:
    return world.reservations[f"job:{job.id}", "GPU-0"].mib


@pytest.mark.parametrize("devices", [MPS, TIMESLICE], ids=["mps", "timeslice"])
@pytest.mark.parametrize("policy", [Magm(), RoundRobin()], ids=["magm", "rr"])
def test_others_join_it_once_its_memory_has_settled(
    devices: tuple[Device, ...], policy: Any
) -> None:
    """Also under a policy that looks at nothing."""
    world, job = recovered(devices, policy=policy)
    late = world.submit(4 * GIB, smact=0.1)
    assert world.state(late) is JobState.PENDING
    assert world.why(late)[0] == "recovering"
    settles(world, job, 24 * GIB)
    assert world.state(late) is JobState.RUNNING
    assert reserved(world, job) == 25 * GIB
    modes = {a.placement.collocation for a in world.attempts.values() if a.ended is None}
    assert modes == {Collocation.MPS if devices[0].mps else Collocation.TIMESLICE}


def test_it_waits_for_an_idle_device() -> None:
    world = World(gpus(1), settings=CORE)
    job, other = world.submit(4 * GIB, smact=0.1), world.submit(4 * GIB, smact=0.1)
    assert dies(world, job, 4 * GIB).state is JobState.RECOVERING
    assert world.why(job)[0] == "not idle"
    world.end(other)
    assert world.state(job) is JobState.RUNNING


def test_no_cap_keeps_it_from_what_it_needs() -> None:
    world, job = recovered(MPS)
    first, again = (a for a in world.actions if isinstance(a, act.Launch))
    assert first.cap_mib is not None
    assert (again.cap_mib, again.shared) == (None, True)
    assert reserved(world, job) == MPS[0].capacity_mib


def test_what_its_death_has_proven_stays_reserved_though_it_uses_less_so_far() -> None:
    world, job = recovered(TIMESLICE)
    assert job.memory_floor_mib == 20 * GIB
    settles(world, job, 5 * GIB)
    assert reserved(world, job) == 20 * GIB
    large = world.submit(19 * GIB, smact=0.1)
    assert world.why(large)[0] == "memory"


def test_who_recovers_is_left_alone_after_a_restart_too() -> None:
    world, job = recovered(TIMESLICE)
    world.restart()
    late = world.submit(4 * GIB, smact=0.1)
    assert world.why(late)[0] == "recovering"
    settles(world, job, 10 * GIB)
    assert world.state(late) is JobState.RUNNING


def test_one_that_dies_again_beside_others_gets_a_device_of_its_own() -> None:
    """So nobody who joins can make it die again and again."""
    world, job = recovered(TIMESLICE)
    settles(world, job, 20 * GIB)
    other = world.submit(10 * GIB, smact=0.1)
    assert world.state(other) is JobState.RUNNING
    died = dies(world, job, 28 * GIB, 4 * GIB)
    assert (died.state, died.own_device) == (JobState.RECOVERING, True)
    world.end(other)
    attempt = world.live(job)
    assert attempt is not None and attempt.placement.collocation is Collocation.EXCLUSIVE
    settles(world, job, 20 * GIB)
    assert world.why(world.submit(GIB, smact=0.1))[0] == "taken"


def test_one_that_dies_again_alone_is_not_the_worse_for_it() -> None:
    world, job = recovered(TIMESLICE)
    died = dies(world, job, 20 * GIB, 2 * GIB)
    assert (died.state, died.own_device) == (JobState.RUNNING, False)


@pytest.mark.parametrize("rule", [IdleDevice(), OwnDevice()], ids=lambda rule: rule.name)
def test_recovery_is_bounded_under_a_policy_that_looks_at_nothing(rule: Any) -> None:
    world = World(gpus(1), settings=CORE, policy=RoundRobin(), recovery=rule)
    job = world.submit(4 * GIB, smact=0.1)
    for _ in range(rule.max_recoveries):
        dies(world, job, 4 * GIB)
        for other in [j for j in world.jobs.values() if j.id != job.id and j.state.live]:
            world.end(other)
        assert world.state(job) is JobState.RUNNING
        settles(world, job, 4 * GIB)
        world.submit(4 * GIB, smact=0.1)
    assert dies(world, job, 4 * GIB).state is JobState.FAILED


def test_own_device_reserves_all_of_it_to_the_end() -> None:
    world, job = recovered(TIMESLICE, recovery=OwnDevice())
    settles(world, job, 10 * GIB)
    attempt = world.live(job)
    assert attempt is not None and attempt.placement.collocation is Collocation.EXCLUSIVE
    assert world.why(world.submit(GIB, smact=0.1))[0] == "taken"
