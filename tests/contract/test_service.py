"""Jobs that cannot start on the devices in service stand aside, and keep their place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from benchmarks.events import CountingWorld
from radrm.core.records import ArrayElement, Device, Job, Needs, OutOfMemory, Role
from radrm.core.state.ledger import OUT_OF_SERVICE_S
from radrm.core.words import Collocation, DeviceKind, JobState
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.contract.outages import (
    CORE,
    OUTAGES,
    Faulty,
    bring_back,
    drain,
    pass_grace,
    see,
    take_away,
)
from tests.world import GIB, World, gpus


def summary(world: World, job: Job) -> str:
    return world.scheduler.why_waiting(job.id, world.now)[0].message


# ------------------------------------------------------------------ standing aside


@pytest.mark.parametrize("how", OUTAGES)
def test_who_needs_more_gpus_than_are_in_service_stands_aside_and_keeps_its_place(how: str) -> None:
    world = Faulty(gpus(4), settings=CORE)
    world.faults = {}
    running = world.submit(30 * GIB, smact=0.9)
    wide = world.submit(30 * GIB, gpus=4)
    take_away(world, how)
    pass_grace(world)
    behind = [world.submit(30 * GIB, smact=0.9) for _ in range(3)]
    states = [world.state(job) for job in behind]
    assert states == [JobState.RUNNING, JobState.RUNNING, JobState.PENDING]
    assert world.state(wide) is JobState.PENDING
    assert summary(world, wide).startswith("needs 4 GPUs, 3 are in service")
    waiting = world.scheduler.state.lines
    assert waiting.line_of_job(wide).position(wide.id) is None, "it is not in line"
    assert "GPU 3" in summary(world, wide)
    bring_back(world, how)
    assert world.why(behind[2])[0] == "order", "its place is taken back at once"
    for job in (running, *behind[:2]):
        world.end(job)
    assert world.state(wide) is JobState.RUNNING
    assert world.state(behind[2]) is JobState.PENDING


@pytest.mark.parametrize("how", ["unreadable", "fault"])
def test_a_short_trouble_lets_nobody_pass(how: str) -> None:
    world = Faulty(gpus(4), settings=CORE)
    world.faults = {}
    world.submit(30 * GIB, smact=0.9)
    wide = world.submit(GIB, gpus=4)
    take_away(world, how)
    world.pass_time(OUT_OF_SERVICE_S / 2)
    behind = world.submit(GIB)
    assert world.state(behind) is JobState.PENDING
    assert world.why(behind)[0] == "order"
    bring_back(world, how)
    world.end(1)
    assert world.state(wide) is JobState.RUNNING


def test_trouble_that_comes_and_goes_counts_anew_each_time() -> None:
    world = Faulty(gpus(2), settings=CORE)
    world.submit(30 * GIB, smact=0.9)
    wide = world.submit(30 * GIB, gpus=2)
    for _ in range(4):
        world.faults = {"GPU-1": "Xid 48: a memory error"}
        world.pass_time(1.0)
        world.pass_time(OUT_OF_SERVICE_S - 1)
        assert world.why(wide)[0] != "service"
        world.faults = {}
        world.pass_time(1.0)


def test_without_a_device_in_service_everybody_stands_aside_and_says_why() -> None:
    world = World(gpus(2))
    see(world, ())
    jobs = [world.submit(GIB), world.submit(GIB, gpus=2)]
    for job, wanted in zip(jobs, (1, 2), strict=True):
        assert world.state(job) is JobState.PENDING, "the GPUs may come back"
        assert f"needs {wanted} GPU" in summary(world, job)
        assert "0 are in service" in summary(world, job)
    see(world, gpus(2))
    assert world.state(jobs[0]) is JobState.RUNNING


def test_the_need_decides_which_devices_suit() -> None:
    large = Device(uuid="GPU-9", index=9, name="H100", total_mib=80 * GIB)
    world = World((*gpus(1), large))
    drain(world, "GPU-9")
    big = world.submit(60 * GIB, source="declared")
    small = world.submit(GIB)
    assert world.state(small) is JobState.RUNNING
    assert summary(world, big) == (
        "needs 1 GPU with more than 40.0G, 0 are in service (GPU 9: drained: fan)"
    )
    drain(world, "GPU-9", None)
    assert world.where(big) == ("GPU-9",)


def test_a_mig_profile_decides_too() -> None:
    devices = (
        *gpus(1, 10 * GIB, kind=DeviceKind.MIG, profile="2g.10gb"),
        replace(gpus(2, 5 * GIB)[1], kind=DeviceKind.MIG, profile="1g.5gb"),
    )
    world = World(devices)
    drain(world, "GPU-0")
    wanted = world.submit(roles=(Role(needs=Needs(mig_profile="2g.10gb")),))
    other = world.submit(GIB)
    assert world.where(other) == ("GPU-1",)
    assert "2g.10gb" in summary(world, wanted)


def test_any_number_may_stand_aside() -> None:
    world = World(gpus(2))
    drain(world, "GPU-1")
    for _ in range(150):
        world.submit(GIB, gpus=2)
    assert world.state(world.submit(GIB)) is JobState.RUNNING


def test_a_restart_changes_nothing_about_who_stands_aside() -> None:
    world = World(gpus(2))
    drain(world, "GPU-1")
    wide = world.submit(GIB, gpus=2)
    world.restart()
    assert world.state(world.submit(GIB)) is JobState.RUNNING
    assert world.why(wide)[0] == "service"


def test_one_that_stands_aside_can_be_cancelled_held_and_edited() -> None:
    world = World(gpus(2))
    drain(world, "GPU-1")
    jobs = [world.submit(GIB, gpus=2) for _ in range(3)]
    assert world.cancel(jobs[0]).state is JobState.CANCELLED
    world.hold(jobs[1])
    drain(world, "GPU-1", None)
    assert [world.state(job) for job in jobs[1:]] == [JobState.PENDING, JobState.RUNNING]
    drain(world, "GPU-1")
    world.end(jobs[2])
    world.hold(jobs[1], False)
    assert world.edit(jobs[1], roles=(Role(needs=Needs(gpus=1)),)) is None
    assert world.state(jobs[1]) is JobState.RUNNING


def test_an_array_whose_elements_stand_aside_lets_others_pass() -> None:
    world = World(gpus(2))
    drain(world, "GPU-1")
    elements = [
        world.submit(GIB, gpus=2, array=ArrayElement(1, index, at_once=1)) for index in range(3)
    ]
    assert world.state(world.submit(GIB)) is JobState.RUNNING
    assert [world.why(job)[0] for job in elements] == ["service", "array", "array"]


# ------------------------------------------------------------------ unmanaged processes


def alone(world: World) -> Job:
    return world.submit(GIB, collocation=Collocation.EXCLUSIVE)


def recovering(world: World) -> Job:
    job = world.submit(GIB, name="recovering")
    world.end(job, 1, oom=OutOfMemory("test", requested_mib=GIB))
    return job


@pytest.mark.parametrize("wish", [alone, recovering], ids=lambda wish: wish.__name__)
def test_who_wants_an_idle_gpu_waits_aside_while_unmanaged_processes_use_it(
    wish: Callable[[World], Job],
) -> None:
    """A desktop on the only GPU must not keep everybody waiting behind one job."""
    world = World(gpus(1), settings=CORE)
    world.unmanaged["GPU-0"] = CORE.idle_unmanaged_mib + 200
    world.read()
    first = wish(world)
    behind = world.submit(GIB)
    assert world.state(behind) is JobState.PENDING, "they may end at any moment"
    assert world.why(behind)[0] == "order"
    pass_grace(world)
    assert world.state(behind) is JobState.RUNNING
    assert summary(world, first) == (
        "needs 1 idle GPU, 0 are in service (GPU 0: unmanaged processes use 456M of it, "
        "more than core.idle_unmanaged_mib = 256)"
    )
    world.unmanaged.clear()
    world.read()
    last = world.submit(GIB)
    assert world.why(last)[0] == "order", "its place is taken back"
    world.end(behind)
    assert not world.state(first).waiting


def test_a_policy_of_idle_gpus_does_not_wait_for_one_that_is_never_idle() -> None:
    settings = dataclasses.replace(CORE, whole_devices=True)
    world = World(gpus(2), policy=Exclusive(), settings=settings)
    world.unmanaged["GPU-1"] = 8 * GIB
    world.read()
    wide, narrow = world.submit(GIB, gpus=2), world.submit(GIB)
    pass_grace(world)
    assert world.state(narrow) is JobState.RUNNING
    assert "needs 2 idle GPUs, 1 is in service" in summary(world, wide)
    shared = World(gpus(2), settings=CORE)
    shared.unmanaged["GPU-1"] = 8 * GIB
    shared.read()
    pass_grace(shared)
    assert shared.state(shared.submit(GIB, gpus=2)) is JobState.RUNNING, "it shares"


def test_what_unmanaged_processes_use_counts_from_when_they_came_last() -> None:
    world = World(gpus(1), settings=CORE)
    ledger = world.scheduler.state.ledgers["GPU-0"]
    told = []
    for used_mib in (GIB, GIB, 0, GIB, GIB):
        world.unmanaged["GPU-0"] = used_mib
        world.pass_time(OUT_OF_SERVICE_S * 0.8)
        told.append(ledger.never_idle(world.now) is not None)
    assert told == [False, False, False, False, False]
    world.pass_time(OUT_OF_SERVICE_S * 0.8)
    assert ledger.never_idle(world.now) is not None


# ------------------------------------------------------------------ the cost


def cost(length: int) -> dict[str, int]:
    settings = dataclasses.replace(CORE, stale_after_s=1e9)
    world = CountingWorld(gpus(3), settings=settings)
    for _ in range(length):
        world.submit(GIB, gpus=3, smact=0.9)
    found = {
        "drained": world.cost_of(lambda: drain(world, "GPU-2")),
        "another job": world.cost_of(lambda: world.submit(30 * GIB, smact=0.9)),
        "readings": world.cost_of(world.read),
    }
    world.end(1)
    found["resumed"] = world.cost_of(lambda: drain(world, "GPU-2", None))
    return found


def test_an_outage_costs_no_more_calls_with_a_long_queue() -> None:
    short, long = cost(10), cost(1000)
    for name, calls in short.items():
        assert long[name] <= calls * 1.1 + 20, f"{name}: {calls} at 10 jobs, {long[name]} at 1000"
