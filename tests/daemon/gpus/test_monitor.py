"""The reading thread: its errors are readings too, and its death is not the daemon's."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

import pytest

from radrm.core.events import DevicesSeen, Event, ReadingsTaken
from radrm.core.records import Device, Instant, Reading
from radrm.daemon import monitor as module
from radrm.daemon.monitor import HANG_S, Monitor
from radrm.errors import DeviceError
from radrm.host.clock import Clock
from radrm.host.gpus.source import GpuSource, OwnerOf
from tests.waiting import wait_until

GPU = Device(uuid="GPU-0", index=0, name="test", total_mib=1000)


class Source(GpuSource):
    """Answers as the test says next; while `held` is set, not at all."""

    name = "test"
    changed = False

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self.error: str | None = None
        self.listed: tuple[Device, ...] = (GPU,)
        self.listings = 0
        self.reads = 0
        self.held = threading.Event()
        self.free = threading.Event()
        self.closed = threading.Event()
        self.acknowledged: list[str] = []

    def devices(self) -> tuple[Device, ...]:
        self.listings += 1
        return self.listed

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        self.reads += 1
        if self.held.is_set():
            self.free.wait()
        if self.raised is not None:
            raise self.raised
        return tuple(Reading(device=u, at=at, used_mib=0, error=self.error) for u in uuids)

    def acknowledge(self, uuid: str) -> None:
        self.acknowledged.append(uuid)

    def close(self) -> None:
        self.closed.set()


class World:
    """A monitor and what it posts. Nobody looks after its thread but the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LOOK_S", 3600.0)
        self.source = Source()
        self.monitor: Monitor | None = None
        self.posted: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def start(self, interval_s: float = 0.01) -> Monitor:
        self.monitor = Monitor(self.source, Clock(), lambda pid: None, self.posted.put, interval_s)
        self.monitor.start((GPU,))
        return self.monitor

    def next(self) -> Event:
        return self.posted.get(timeout=60)

    def next_reading(self) -> Reading:
        event = self.next()
        assert isinstance(event, ReadingsTaken)
        return event.readings[0]

    def no_more(self) -> None:
        """Forget what was posted before."""
        while not self.posted.empty():
            self.posted.get()

    def hold(self, monitor: Monitor) -> float:
        """Have the driver hang; since when it does."""
        self.source.held.set()
        reads = self.source.reads
        wait_until(lambda: self.source.reads > reads)
        self.no_more()
        return monitor._call[1]

    def close(self) -> None:
        self.source.raised = None
        self.source.held.clear()
        self.source.free.set()
        if self.monitor is not None:
            self.monitor.stop()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    place = World(monkeypatch)
    yield place
    place.close()


# ------------------------------------------------------------------ every day


def test_trouble_is_a_reading_with_its_reason_and_passes(world: World) -> None:
    world.start()
    assert world.next_reading().error is None
    for cause in (DeviceError("driver gone"), ValueError("odd")):
        world.source.raised = cause
        # A reading from before may still come first.
        wait_until(lambda said=str(cause): said in str(world.next_reading().error))
    world.source.raised = None
    wait_until(lambda: world.next_reading().error is None)


def test_it_reads_at_once_when_asked(world: World) -> None:
    monitor = world.start(interval_s=3600.0)
    world.next()
    monitor.read_soon()
    began_s = world.next_reading().at.boot_s
    monitor.read_soon(after_s=began_s)
    assert not monitor._wanted.is_set(), "that one was late enough"
    monitor.acknowledge("GPU-0")
    world.next()
    assert world.source.acknowledged == ["GPU-0"]


def test_devices_that_come_and_go_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELIST_S", 2)
    world.start()
    world.source.listed = ()
    wait_until(lambda: isinstance(world.next(), DevicesSeen))


@pytest.mark.parametrize(("round_s", "expected"), [(0.2, 300), (1.0, 60), (10.0, 6), (1e9, 1)])
def test_a_listing_a_minute_at_any_interval(round_s: float, expected: int) -> None:
    source = Source()
    monitor = Monitor(source, Clock(), lambda pid: None, lambda event: None, 0.001, round_s=round_s)
    assert monitor.rounds(module.RELIST_S) == expected


@pytest.mark.parametrize("reason", ["changed", "error"])
def test_they_are_listed_soon_where_there_is_reason_to(
    world: World, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(module, "RELIST_S", 1_000_000)
    monkeypatch.setattr(module, "RELIST_SOON_S", 1)
    world.start()
    world.next()
    assert world.source.listings == 0
    setattr(world.source, reason, True if reason == "changed" else "not there any more")
    world.source.listed = ()
    wait_until(lambda: isinstance(world.next(), DevicesSeen))
    if reason == "error":
        wait_until(lambda: world.source.reads > 20)
        assert world.source.listings == 1, "once, and not for as long as it fails"


def test_the_log_says_once_what_takes_no_job_and_when_that_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "radrm")
    monkeypatch.setattr(module, "RELIST_S", 2)

    def shown() -> list[tuple[str, bool]]:
        return [(r.levelname, "is lost" in r.getMessage()) for r in caplog.records]

    world.start()
    world.next()
    world.source.error = "the GPU is lost"
    wait_until(lambda: world.next_reading().error is not None)
    reads = world.source.reads
    wait_until(lambda: world.source.reads > reads + 3)
    assert shown() == [("ERROR", True)]
    world.source.error = None
    wait_until(lambda: len(shown()) == 2)
    assert shown()[1] == ("INFO", False)
    world.source.listed = ()
    wait_until(lambda: len(shown()) == 3)
    assert shown()[2] == ("ERROR", False)
    world.source.listed = (GPU,)
    wait_until(lambda: len(shown()) == 4)
    assert shown()[3] == ("INFO", False)


# ------------------------------------------------------------------ when it hangs


def test_a_driver_that_does_not_answer_is_told_as_such(world: World) -> None:
    monitor = world.start()
    since_s = world.hold(monitor)
    monitor.look(since_s + HANG_S - 0.1)
    assert world.posted.empty(), "slow is not stuck"
    for busy_s in (HANG_S + 1, HANG_S + 2):
        monitor.look(since_s + busy_s)
        found = world.next_reading()
        assert found.error == f"the driver has not answered for {busy_s:.0f} s"
        assert found.used_mib is None
    # It answers after all: that reading is out of date, the next one counts.
    world.source.held.clear()
    world.source.free.set()
    after = world.next_reading()
    assert after.error is None
    assert world.source.reads >= 2


def test_the_end_does_not_wait_for_a_stuck_driver(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_LIMIT_S", 0.01)
    monitor = world.start()
    world.hold(monitor)
    monitor.stop()
    assert monitor._reader.is_alive() and not world.source.closed.is_set()
    world.source.free.set()
    assert world.source.closed.wait(60), "by the thread that has called it"
