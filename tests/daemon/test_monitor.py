"""The reading thread: its troubles are readings too, and its death is not the daemon's."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence

import pytest

from radrm.core.events import DevicesSeen, Event, ReadingsTaken
from radrm.core.records import Device, Instant, Reading
from radrm.daemon import monitor as module
from radrm.daemon.monitor import Monitor
from radrm.errors import DeviceError
from radrm.host.clock import Clock
from radrm.host.source import OwnerOf
from tests.daemon.harness import wait_until

GPU = Device(uuid="GPU-0", index=0, name="test", total_mib=1000)


class Source:
    """Answers as the test says next."""

    name = "test"

    def __init__(self) -> None:
        self.trouble: BaseException | None = None
        self.listed: tuple[Device, ...] = (GPU,)

    def devices(self) -> tuple[Device, ...]:
        return self.listed

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        if self.trouble is not None:
            raise self.trouble
        return tuple(Reading(device=u, at=at, used_mib=0) for u in uuids)

    def close(self) -> None:
        pass


def started(source: Source, interval_s: float = 0.01) -> tuple[Monitor, Callable[[], Event]]:
    posted: queue.SimpleQueue[Event] = queue.SimpleQueue()
    monitor = Monitor(source, Clock(), lambda pid: None, posted.put, interval_s)
    monitor.start((GPU,))
    return monitor, lambda: posted.get(timeout=30)


def reading(event: Event) -> Reading:
    assert isinstance(event, ReadingsTaken)
    return event.readings[0]


def test_trouble_is_a_reading_with_its_reason_and_passes() -> None:
    source = Source()
    monitor, next_event = started(source)
    assert reading(next_event()).error is None
    for trouble in (DeviceError("driver gone"), ValueError("odd")):
        source.trouble = trouble
        found = wait_until(lambda: reading(next_event()).error)
        assert str(trouble) in str(found)
    source.trouble = None
    wait_until(lambda: reading(next_event()).error is None)
    monitor.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_started_again() -> None:
    source = Source()
    monitor, next_event = started(source)
    source.trouble = SystemExit()
    wait_until(lambda: not monitor._thread.is_alive())
    source.trouble = None
    monitor.ensure_alive()
    wait_until(lambda: reading(next_event()).error is None)
    monitor.stop()


def test_it_reads_at_once_when_asked() -> None:
    monitor, next_event = started(Source(), interval_s=3600.0)
    next_event()
    monitor.read_soon()
    next_event()
    monitor.stop()


def test_devices_that_come_and_go_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELIST_EVERY", 2)
    source = Source()
    monitor, next_event = started(source)
    source.listed = ()
    wait_until(lambda: isinstance(next_event(), DevicesSeen))
    monitor.stop()
