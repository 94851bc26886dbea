"""A thread that reads the devices, regularly and on request, and one that watches it.

The reading thread may hang in the driver or die without taking anything along: the watcher
says so within 5 s, as readings that could not be taken, so that the devices take no new job.
A thread that does not come back is given up and another one started, with a source of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from radrm.core.events import DevicesSeen, Event, ReadingsTaken
from radrm.core.records import Device, Reading
from radrm.errors import DeviceError
from radrm.host.clock import Clock
from radrm.host.gpus.readings import take_over
from radrm.host.gpus.source import GpuSource, OwnerOf

log = logging.getLogger("radrm")

RELIST_EVERY = 60
"""Rounds of reading between two looks at which devices there are..."""
RELIST_SOON = 5
"""...and between two that something has given reason to."""
LOOK_S = 1.0
"""Real seconds between two looks at the reading thread."""
HANG_S = 4.0
"""Real seconds in one call after which the driver is said not to answer: with `LOOK_S` this
makes 5 s."""
GIVE_UP_S = 30.0
"""Real seconds in one call after which another thread is started."""
MOST_GIVEN_UP = 4
"""Threads that hang. With so many of them there is no point in one more."""
STOP_LIMIT_S = 2.0
"""Real seconds for which a source may hold up the daemon's end."""


class Monitor:
    """Posts `ReadingsTaken` every `interval_s` real seconds, and at once when asked.

    `renew` makes a source as good as new, for when `source` never returns from a call.
    """

    def __init__(
        self,
        source: GpuSource,
        clock: Clock,
        owner_of: OwnerOf,
        post: Callable[[Event], None],
        interval_s: float,
        renew: Callable[[], GpuSource] | None = None,
    ) -> None:
        self.clock = clock
        self.owner_of = owner_of
        self.post = post
        self.interval_s = interval_s
        self.wanted = threading.Event()
        self.devices: tuple[Device, ...] = ()
        self._renew = renew
        self._reader = _Reader(self, lambda: source)
        self._given_up: list[_Reader] = []
        self._said: str | None = None
        self._begun = False
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="monitor-watch", daemon=True)

    def start(self, devices: tuple[Device, ...]) -> None:
        self.devices = devices
        self._begun = True
        self._reader.thread.start()
        self._watcher.start()

    def read_soon(self) -> None:
        """Something has changed on a device: do not wait for the next round."""
        self.wanted.set()

    def acknowledge(self, uuid: str) -> None:
        """Somebody has seen to this device: what the source holds against it is over."""
        acknowledge = getattr(self._reader.source, "acknowledge", None)
        if acknowledge is not None:
            acknowledge(uuid)
            self.read_soon()

    def ensure_alive(self) -> None:
        """Start again after a death that nobody expected."""
        if self._begun and not self._stopping.is_set() and not self._watcher.is_alive():
            log.error("the thread that watches the readings has died and is started again")
            self._watcher = threading.Thread(target=self._watch, name="monitor-watch", daemon=True)
            self._watcher.start()

    def stop(self) -> None:
        """End the threads and close the source. One that hangs is left to the process's end."""
        self._stopping.set()
        self._reader.over.set()
        self.wanted.set()
        if self._begun:
            self._reader.thread.join(STOP_LIMIT_S)
        self._close(self._reader).join(STOP_LIMIT_S)

    # ------------------------------------------------------------- the watcher

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_S):
            self.look(time.monotonic())

    def look(self, now_s: float) -> None:
        """See to the reading thread; `now_s` is real time on the monotonic clock."""
        reader = self._reader
        if not reader.thread.is_alive():
            log.error("the reading thread has died and is started again")
            self._replace(reader.open_again)
            return
        since_s = reader.busy_since_s
        busy_s = now_s - since_s if since_s is not None else 0.0
        if busy_s < HANG_S:
            return
        trouble = f"the driver has not answered for {busy_s:.0f} s"
        if not reader.late:
            reader.late = True
            self.say("the driver does not answer")
        at = self.clock.now()
        errors = tuple(Reading(device=d.uuid, at=at, error=trouble) for d in self.devices)
        self.post(ReadingsTaken(at=at, readings=errors))
        self._given_up = [other for other in self._given_up if other.thread.is_alive()]
        if busy_s >= GIVE_UP_S and self._renew and len(self._given_up) < MOST_GIVEN_UP:
            log.error("the driver has not answered for %.0f s; asking anew", busy_s)
            self._given_up.append(reader)
            self._close(reader)
            self._replace(self._renew, reader)

    def _replace(
        self, open_source: Callable[[], GpuSource], given_up: _Reader | None = None
    ) -> None:
        """Have another thread read; its source learns what that of one given up knew."""
        self._reader.over.set()
        self._reader = _Reader(self, open_source, first=False)
        if given_up is not None:
            self._reader.before = given_up.source or given_up.before
        self._reader.thread.start()

    def _close(self, reader: _Reader) -> threading.Thread:
        """Close a source in a thread of its own, which may hang with it."""
        source = reader.source
        closing = threading.Thread(target=_quietly, args=(source,), name="closing", daemon=True)
        closing.start()
        return closing

    # ------------------------------------------------------------- for both threads

    def say(self, trouble: str | None) -> None:
        """Once when it begins, once when it is over."""
        if trouble != self._said:
            if trouble is not None:
                log.error("the devices cannot be read: %s", trouble)
            else:
                log.info("the devices can be read again")
            self._said = trouble


class _Reader:
    """One thread with one source: it reads until it is `over`."""

    def __init__(
        self, monitor: Monitor, open_source: Callable[[], GpuSource], first: bool = True
    ) -> None:
        self._monitor = monitor
        self._open = open_source
        self._rounds = 0 if first else RELIST_EVERY
        self._erring: frozenset[str] = frozenset()
        self.source: GpuSource | None = open_source() if first else None
        self.before: GpuSource | None = None
        """The source in whose place that of this reader is opened."""
        self.over = threading.Event()
        self.late = False
        """Whether the call at hand was said not to return; what it brings is out of date."""
        self.busy_since_s: float | None = None
        """Since when a call of the source lasts (real, monotonic); None between calls."""
        self.thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def open_again(self) -> GpuSource:
        """The source of this reader, for one that follows it."""
        return self.source if self.source is not None else self._opened()

    def _opened(self) -> GpuSource:
        source = self._open()
        if self.before is not None:
            take_over(source, self.before)
            self.before = None
        return source

    def _run(self) -> None:
        monitor = self._monitor
        while not self.over.is_set():
            self.busy_since_s = time.monotonic()
            event = self._round()
            late, self.late = self.late, False
            self.busy_since_s = None
            if self.over.is_set():
                break
            if late:
                continue
            monitor.post(event)
            monitor.wanted.wait(monitor.interval_s)
            monitor.wanted.clear()

    def _round(self) -> ReadingsTaken:
        """List if it is time, and read. Troubles are readings too."""
        monitor = self._monitor
        # The time before the reading: what ended after it may still have been seen by it.
        at = monitor.clock.now()
        try:
            if self.source is None:
                self.source = self._opened()
            self._list(self.source)
            at = monitor.clock.now()
            uuids = [device.uuid for device in monitor.devices]
            readings = self.source.read(uuids, at, monitor.owner_of)
            trouble = None
        except DeviceError as error:
            trouble = str(error)
        except Exception as error:  # a source may fail in ways that nobody has foreseen
            trouble = f"reading failed: {type(error).__name__}: {error}"
        self._rounds += 1
        if trouble is not None:
            readings = tuple(
                Reading(device=device.uuid, at=at, error=trouble) for device in monitor.devices
            )
        if not self.over.is_set() and not self.late:
            monitor.say(trouble)
        self._take_errors(readings if trouble is None else ())
        return ReadingsTaken(at=at, readings=readings)

    def _take_errors(self, readings: tuple[Reading, ...]) -> None:
        """A device that begins to fail may be there no more: look soon."""
        erring = frozenset(reading.device for reading in readings if reading.error is not None)
        if erring - self._erring and self._rounds >= RELIST_SOON:
            self._rounds = RELIST_EVERY
        self._erring = erring

    def _list(self, source: GpuSource) -> None:
        """See which devices there are, now and then and when there is reason to."""
        changed = getattr(source, "changed", False) and self._rounds >= RELIST_SOON
        if self._rounds < RELIST_EVERY and not changed:
            return
        self._rounds = 0
        try:
            devices = source.devices()
        except Exception:
            return  # the readings say so, device by device
        if self.over.is_set() or devices == self._monitor.devices:
            return
        self._monitor.devices = devices
        self._monitor.post(DevicesSeen(at=self._monitor.clock.now(), devices=devices))


def _quietly(source: Any) -> None:
    """Close a source that may be broken in any way."""
    try:
        if source is not None:
            source.close()
    except Exception as error:
        log.warning("a source of readings could not be closed: %s", error)
