"""Jobs that no device can ever run: they fail, and a device that may come back fails none."""

from __future__ import annotations

import pytest

from radrm.core.in_service import GONE_AFTER_S
from radrm.core.records import Needs, OutOfMemory, Role
from radrm.core.words import Collocation, DeviceKind, JobState
from radrm.structs import replace
from tests.contract.outages import drain, see
from tests.world import GIB, World, gpus


def test_a_gpu_that_vanished_may_come_back_so_its_jobs_are_accepted() -> None:
    world = World(gpus(2))
    see(world, gpus(1))
    late = world.submit(GIB, gpus=2)
    assert world.state(late) is JobState.PENDING
    for _ in range(3):
        world.pass_time(2 * GONE_AFTER_S)
    assert world.state(late) is JobState.PENDING
    see(world, gpus(2))
    assert world.state(late) is JobState.RUNNING


def test_what_a_new_mig_layout_can_never_run_fails_once_the_layout_stands() -> None:
    world = World(gpus(2, 20 * GIB, kind=DeviceKind.MIG, profile="3g.20gb"))
    wish = (Role(needs=Needs(mig_profile="3g.20gb")),)
    waiting = [world.submit(roles=wish) for _ in range(3)][2]
    small = replace(gpus(1, 5 * GIB, kind=DeviceKind.MIG)[0], profile="1g.5gb")
    after = tuple(replace(small, uuid=f"MIG-{index}", index=index) for index in range(4))
    see(world, ())
    see(world, after[:1])
    assert world.state(waiting) is JobState.PENDING, "the layout is still being cut"
    assert world.state(world.submit(GIB)) is JobState.RUNNING, "others go on"
    see(world, after)
    world.pass_time(GONE_AFTER_S - 1)
    assert world.state(waiting) is JobState.PENDING
    world.pass_time(2)
    assert world.state(waiting) is JobState.FAILED
    assert "this instance has 1g.5gb" in (world.jobs[waiting.id].reason or "")


def test_a_gpu_that_was_cut_into_instances_does_not_come_back() -> None:
    world = World(gpus(2))
    running, waiting = (world.submit(30 * GIB, gpus=2) for _ in range(2))
    part = replace(gpus(1, 5 * GIB)[0], uuid="MIG-1", kind=DeviceKind.MIG, profile="1g.5gb")
    see(world, gpus(1))
    world.end(running)
    see(world, (*gpus(1), replace(part, index=1, parent="GPU-1")))
    assert world.state(waiting) is JobState.PENDING
    for _ in range(2):
        world.pass_time(GONE_AFTER_S)
    assert world.state(waiting) is JobState.FAILED


def test_a_layout_that_comes_back_in_time_fails_nobody() -> None:
    before = gpus(1, 20 * GIB, kind=DeviceKind.MIG, profile="3g.20gb")
    world = World(before)
    wish = (Role(needs=Needs(mig_profile="3g.20gb")),)
    waiting = [world.submit(roles=wish) for _ in range(2)][1]
    other = replace(before[0], uuid="MIG-1", profile="1g.5gb")
    drain(world, before[0].uuid)
    for _ in range(3):
        see(world, (other,))
        world.pass_time(GONE_AFTER_S - 1)
        see(world, before)
        world.pass_time(1)
    drain(world, before[0].uuid, None)
    assert world.state(waiting) is JobState.RUNNING


def test_a_gpu_that_a_daemon_does_not_find_after_its_start_is_gone_for_good() -> None:
    world = World(gpus(2))
    running, waiting, held = (world.submit(30 * GIB, gpus=2) for _ in range(3))
    world.hold(held)
    world.devices = gpus(1)
    world.restart()
    assert world.state(waiting) is JobState.PENDING, "it may be late"
    world.end(running)
    assert world.state(world.submit(GIB)) is JobState.RUNNING, "others go on"
    world.pass_time(GONE_AFTER_S + 1)
    assert world.state(waiting) is JobState.FAILED
    assert "at most 1" in (world.jobs[waiting.id].reason or "")
    world.hold(held, False)
    for _ in range(2):
        world.pass_time(GONE_AFTER_S)
    assert world.state(held) is JobState.FAILED


def test_mps_that_is_down_makes_nobody_hopeless_who_waits() -> None:
    world = World(gpus(1, mps=True))
    world.submit(30 * GIB, smact=0.9)
    client = world.submit(GIB, collocation=Collocation.MPS, user="bob", uid=1001)
    see(world, gpus(1))
    other = world.submit(GIB, smact=0.1)
    world.end(1)
    assert world.state(other) is JobState.RUNNING, "who insists on MPS stands aside"
    for _ in range(3):
        world.pass_time(GONE_AFTER_S)
    assert world.state(client) is JobState.PENDING
    world.end(other)
    see(world, gpus(1, mps=True))
    assert world.state(client) is JobState.RUNNING


def test_two_kinds_of_device_do_not_make_one_placement() -> None:
    """A placement has one way of sharing: a GPU and a MIG instance are not two of a kind."""
    mig = replace(gpus(2, 5 * GIB)[1], kind=DeviceKind.MIG, profile="1g.5gb")
    world = World((*gpus(1), mig))
    job = world.submit(roles=(Role(count_min=2, count_max=2),))
    assert world.state(job) is JobState.FAILED
    assert "at most 1" in (world.jobs[job.id].reason or "")


def test_roles_do_not_share_their_devices() -> None:
    world = World(gpus(3))
    two = Role("a", 2, 2), Role("b", 2, 2)
    job = world.submit(roles=two)
    assert world.state(job) is JobState.FAILED
    assert "4 GPUs" in (world.jobs[job.id].reason or "")


@pytest.mark.parametrize("needed", [41, 64])
def test_what_no_device_has_stays_known_of_a_job_that_failed(needed: int) -> None:
    """So its verdict does not advise to ask for more."""
    world = World(gpus(1))
    job = world.submit(4 * GIB)
    died = world.end(job, 1, oom=OutOfMemory("test", requested_mib=needed * GIB))
    assert (died.state, died.memory_floor_mib) == (JobState.FAILED, needed * GIB)
    assert "largest device" in died.reason
