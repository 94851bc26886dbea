"""Read the devices in a thread, regularly and on request, and watch that thread.

Theory of operation. The reading thread may hang in the driver. The watcher then posts error
readings within 5 s, so that the devices take no new job. The result of a late call is out of date
and is dropped. A thread that does not return is given up: another thread starts with a source of
its own, which takes over what the old source knew. No error ends one of these threads. Nothing here
is stored; a restart lists and reads all devices again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from radrm.core.events import DevicesSeen, Event, ReadingsTaken
from radrm.core.records import Device, Reading
from radrm.core.units import gpus_named
from radrm.errors import DeviceError
from radrm.host.clock import Clock
from radrm.host.gpus.source import GpuSource, OwnerOf

log = logging.getLogger("radrm")

RELIST_S = 60
"""Seconds of rounds of readings between two listings of the devices."""
RELIST_SOON_S = 5
"""Fewest seconds between two listings, when a device has changed or fails."""
LOOK_S = 1.0
"""Real seconds between two looks at the reading thread."""
HANG_S = 4.0
"""Real seconds of one call after which the driver counts as hanging; with `LOOK_S`, 5 s pass."""
GIVE_UP_S = 30.0
"""Real seconds of one call after which another thread is started."""
MOST_GIVEN_UP = 4
"""Most threads that may hang at once. After that, another one would hang too."""
STOP_LIMIT_S = 2.0
"""Real seconds that a source may delay the daemon's end."""


class Monitor:
    """Posts `ReadingsTaken` every `interval_s` real seconds, and at once when asked.

    `renew` opens a new source, for when a call of `source` never returns. A round counts as
    `round_s` of the clock, which a scaled clock may exceed.
    """

    def __init__(
        self,
        source: GpuSource,
        clock: Clock,
        owner_of: OwnerOf,
        post: Callable[[Event], None],
        interval_s: float,
        renew: Callable[[], GpuSource] | None = None,
        round_s: float = 1.0,
    ) -> None:
        self.clock = clock
        self._round_s = round_s
        self.owner_of = owner_of
        self.post = post
        self.interval_s = interval_s
        self.wanted = threading.Event()
        self.devices: tuple[Device, ...] = ()
        self._renew = renew
        self._reader = _Reader(self, lambda: source)
        self._given_up: list[_Reader] = []
        self._troubles: dict[str, str] = {}
        """Why a device takes no new job, as the log has said it, by UUID."""
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="monitor-watch", daemon=True)

    def start(self, devices: tuple[Device, ...]) -> None:
        self.devices = devices
        self._reader.thread.start()
        self._watcher.start()

    def read_soon(self) -> None:
        """Read at once, because something has changed on a device."""
        self.wanted.set()

    def acknowledge(self, uuid: str) -> None:
        """Forget the faults that were read on this device; an administrator has checked it."""
        source = self._reader.source
        if source is not None:
            source.acknowledge(uuid)
            self.read_soon()

    def stop(self) -> None:
        """End the threads and close the source. A thread that hangs ends with the process."""
        self._stopping.set()
        self._reader.over.set()
        self.wanted.set()
        if self._reader.thread.is_alive():
            self._reader.thread.join(STOP_LIMIT_S)
        self._close(self._reader).join(STOP_LIMIT_S)

    # ------------------------------------------------------------- the watcher

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                self.look(time.monotonic())
            except Exception:
                log.exception("the reading thread cannot be looked at")

    def look(self, now_s: float) -> None:
        """Check the reading thread; `now_s` is real time on the monotonic clock."""
        reader = self._reader
        since_s = reader.busy_since_s
        busy_s = now_s - since_s if since_s is not None else 0.0
        if busy_s < HANG_S:
            return
        cause = f"the driver has not answered for {busy_s:.0f} s"
        if not reader.late:
            reader.late = True
            self.log_troubles({d.uuid: "the driver does not answer" for d in self.devices})
        at = self.clock.now()
        errors = tuple(Reading(device=d.uuid, at=at, error=cause) for d in self.devices)
        self.post(ReadingsTaken(at=at, readings=errors))
        self._given_up = [other for other in self._given_up if other.thread.is_alive()]
        if busy_s >= GIVE_UP_S and self._renew and len(self._given_up) < MOST_GIVEN_UP:
            log.error("the driver has not answered for %.0f s; asking anew", busy_s)
            self._give_up(reader, self._renew)

    def _give_up(self, reader: _Reader, renew: Callable[[], GpuSource]) -> None:
        """Start another thread; its source takes over what that of `reader` knew."""
        self._given_up.append(reader)
        self._close(reader)
        reader.over.set()
        self._reader = _Reader(self, renew, first=False)
        self._reader.before = reader.source or reader.before
        self._reader.thread.start()

    def _close(self, reader: _Reader) -> threading.Thread:
        """Close a source in a thread of its own, because closing may hang too."""
        source = reader.source
        closing = threading.Thread(target=_quietly, args=(source,), name="closing", daemon=True)
        closing.start()
        return closing

    # ------------------------------------------------------------- for both threads

    def rounds(self, seconds: float) -> int:
        """Return the number of rounds in this time."""
        return max(1, round(seconds / self._round_s))

    def log_troubles(self, troubles: Mapping[str, str]) -> None:
        """Log which devices take no new job since now, and which are well again, each once."""
        new = {uuid: why for uuid, why in troubles.items() if self._troubles.get(uuid) != why}
        well = [uuid for uuid in self._troubles if uuid not in troubles]
        self._troubles = dict(troubles)
        for why in dict.fromkeys(new.values()):
            named = self._named(uuid for uuid, its in new.items() if its == why)
            log.error("%s: takes no new job: %s", named, why)
        if named := self._named(well):
            log.info("%s: can be used again", named)

    def log_listing(self, devices: Sequence[Device]) -> None:
        """Log which devices have vanished, and which are new."""
        before, now = ({d.uuid: d for d in some} for some in (self.devices, devices))
        for device in (d for uuid, d in before.items() if uuid not in now):
            log.error("%s has vanished; see what nvidia-smi -L lists", _described(device))
        for device in (d for uuid, d in now.items() if uuid not in before):
            log.info("%s is new", _described(device))

    def _named(self, uuids: Iterable[str]) -> str:
        """Return `GPU 0-3` for those of these devices that are listed; "" for none."""
        wanted = set(uuids)
        found = [d.index for d in self.devices if d.uuid in wanted]
        return gpus_named(found) if found else ""


class _Reader:
    """One thread with one source. It reads until `over` is set."""

    def __init__(
        self, monitor: Monitor, open_source: Callable[[], GpuSource], first: bool = True
    ) -> None:
        self._monitor = monitor
        self._open = open_source
        self._rounds = 0 if first else monitor.rounds(RELIST_S)
        self._erring: frozenset[str] = frozenset()
        self.source: GpuSource | None = open_source() if first else None
        self.before: GpuSource | None = None
        """The source that this reader's own source replaces."""
        self.over = threading.Event()
        self.late = False
        """Whether error readings were posted for the current call; its result is out of date."""
        self.busy_since_s: float | None = None
        """When the current call of the source began (real, monotonic); None between calls."""
        self.thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def _opened(self) -> GpuSource:
        source = self._open()
        if self.before is not None:
            source.take_over(self.before)
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
        """List the devices if that is due, and read them. A failure gives error readings."""
        monitor = self._monitor
        # The time before the reading: a process that ended after it may still be in it.
        at = monitor.clock.now()
        try:
            if self.source is None:
                self.source = self._opened()
            self._list(self.source)
            at = monitor.clock.now()
            uuids = [device.uuid for device in monitor.devices]
            readings = self.source.read(uuids, at, monitor.owner_of)
            cause = None
        except DeviceError as error:
            cause = str(error)
        except Exception as error:  # a source may fail in unforeseen ways
            cause = f"reading failed: {type(error).__name__}: {error}"
        self._rounds += 1
        if cause is not None:
            readings = tuple(
                Reading(device=device.uuid, at=at, error=cause) for device in monitor.devices
            )
        if not self.over.is_set() and not self.late:
            found = {r.device: r.error or r.fault for r in readings}
            monitor.log_troubles({uuid: why for uuid, why in found.items() if why is not None})
        self._take_errors(readings if cause is None else ())
        return ReadingsTaken(at=at, readings=readings)

    def _take_errors(self, readings: tuple[Reading, ...]) -> None:
        """List the devices soon if one begins to fail: it may have vanished."""
        erring = frozenset(reading.device for reading in readings if reading.error is not None)
        if erring - self._erring and self._is_soon():
            self._rounds = self._monitor.rounds(RELIST_S)
        self._erring = erring

    def _is_soon(self) -> bool:
        return self._rounds >= self._monitor.rounds(RELIST_SOON_S)

    def _list(self, source: GpuSource) -> None:
        """List the devices regularly, and soon after a change. Post them if they differ."""
        changed = source.changed and self._is_soon()
        if self._rounds < self._monitor.rounds(RELIST_S) and not changed:
            return
        self._rounds = 0
        try:
            devices = source.devices()
        except Exception:
            return  # the readings report the failure, device by device
        if self.over.is_set() or devices == self._monitor.devices:
            return
        self._monitor.log_listing(devices)
        self._monitor.devices = devices
        self._monitor.post(DevicesSeen(at=self._monitor.clock.now(), devices=devices))


def _described(device: Device) -> str:
    return f"GPU {device.index} ({device.profile or device.name}, {device.uuid})"


def _quietly(source: Any) -> None:
    """Close a source that may be broken in any way."""
    try:
        if source is not None:
            source.close()
    except Exception as error:
        log.warning("a source of readings could not be closed: %s", error)
