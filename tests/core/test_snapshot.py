"""Snapshots: what they answer, and that it never changes."""

from __future__ import annotations

from radrm.core import events as ev
from radrm.core.records import Dependency
from radrm.core.settings import CoreSettings
from radrm.core.words import Condition, Outcome
from radrm.structs import replace
from tests.world import GIB, World, gpus


def busy() -> World:
    """1 and 2 run, 3 and 4 wait behind them, 5 is held, 6 follows 1; of 7 and 8, which need no
    GPU, one may run at a time."""
    settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, gpuless_at_once=1)
    world = World(gpus(2), settings=settings)
    for _ in range(5):
        world.submit(30 * GIB, smact=0.5)
    world.used[1] = 20 * GIB
    world.hold(5)
    world.submit(30 * GIB, after=(Dependency(1, Condition.OK),))
    world.submit(gpus=0)
    world.submit(gpus=0)
    world.pass_time(5)
    return world


def test_what_it_answers() -> None:
    world = busy()
    found = world.scheduler.snapshot
    assert sorted(job.id for job in found.jobs) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert found.job(3) == world.jobs[3] and found.job(99) is None
    assert [job.id for job, _ in found.running] == [1, 2, 7]
    assert [[job.id for job in line] for line in found.lines] == [[3, 4], [8]]
    assert [job.id for job in found.aside] == [5, 6] and found.waiting == 3
    assert [found.position(world.jobs[i]) for i in (1, 3, 4, 5, 8)] == [None, 0, 1, None, 0]
    heads = [found.head(world.jobs[i]) for i in (1, 3, 4, 5, 8)]
    assert [head and head.id for head in heads] == [None, 3, 3, None, 8]
    assert found.attempt(1) == found.live_attempt(1, 1) == world.attempts[1, 1]
    assert found.attempt(3) is None and found.live_attempt(1, 2) is None
    used = found.used_now(world.attempts[1, 1])
    assert used.peak_mib == 20 * GIB and used.number == 1


def test_the_use_of_a_live_attempt_is_newer_than_its_record() -> None:
    world = busy()
    world.pass_time(5.0)
    found = world.scheduler.snapshot
    stored = found.attempt(1)
    device = found.device("GPU-0")
    assert stored is not None and device is not None
    (usage,) = found.used_now(stored).usage
    assert usage == device.occupants[1].usage
    assert usage.energy_j is not None and usage not in stored.usage
    ended = replace(stored, ended=world.now)
    assert found.used_now(ended) is ended


def test_what_it_tells_of_a_device() -> None:
    world = busy()
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    first, second = world.scheduler.snapshot.devices
    assert (first.device.uuid, first.drained, second.drained) == ("GPU-0", None, "fan")
    assert first == world.scheduler.snapshot.device("GPU-0")
    assert world.scheduler.snapshot.device("GPU-9") is None
    (occupant,) = first.occupants.values()
    assert (occupant.job_id, occupant.serial, occupant.usage.peak_mib) == (1, 1, 20 * GIB)
    assert occupant.unused_for(world.now.boot_s) is None
    unused = replace(occupant, usage=replace(occupant.usage, peak_mib=0))
    assert unused.unused_for(occupant.since_s + 60.0) == 60.0
    assert [r.owner for r in first.reservations] == ["job:1"]
    assert first.free_mib == first.device.capacity_mib - first.reserved_mib
    assert first.unreadable(world.now.boot_s) is None
    assert "old" in (first.unreadable(world.now.boot_s + 60) or "")


def test_what_it_has_told_stays_as_it_was() -> None:
    world = busy()
    device, jobs = world.scheduler.snapshot.device("GPU-0"), world.scheduler.snapshot.jobs
    assert device is world.scheduler.snapshot.device("GPU-0"), "made once between two steps"
    before = repr((device, jobs))
    world.used[1] = 25 * GIB
    world.end(2)
    assert repr((device, jobs)) == before
    assert repr((world.scheduler.snapshot.device("GPU-0"), world.scheduler.snapshot.jobs)) != before


def test_what_is_open() -> None:
    world = busy()
    assert world.scheduler.is_open(Dependency(1, Condition.OK))
    world.end(1)
    assert world.attempts[1, 1].outcome is Outcome.COMPLETED
    assert not world.scheduler.is_open(Dependency(1, Condition.OK))
    assert not world.scheduler.is_open(Dependency(1, Condition.OK, array=True))


def test_a_device_that_was_never_read() -> None:
    world = World(gpus(1), warm=False)
    (device,) = world.scheduler.snapshot.devices
    assert device.reading is None and device.free_mib is None
    assert device.unreadable(world.now.boot_s) == "it has not been read yet"
