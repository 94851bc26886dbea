"""Read the devices in a thread, regularly and on request, and watch that thread.

Theory of operation. The reading thread may hang in the driver. The watcher then posts error
readings within 5 s, and each second again, so that the devices take no new job. The result of a
call that was late is out of date and is dropped. Another thread would hang in the same driver, so
none is started: the readings go on when the call returns. The reading thread also closes the
source, so nothing is closed under a call. Each field that both threads use has one writer: the
reader's is the call under way, the watcher's the number of the last late call. No error ends one of
these threads. Nothing is stored; a restart lists and reads all devices again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

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
STOP_LIMIT_S = 2.0
"""Real seconds that a source may delay the daemon's end."""


class Monitor:
    """Posts `ReadingsTaken` every `interval_s` real seconds, and at once when asked.

    A round counts as `round_s` of the clock, which a scaled clock may exceed.
    """

    def __init__(
        self,
        source: GpuSource,
        clock: Clock,
        owner_of: OwnerOf,
        post: Callable[[Event], None],
        interval_s: float,
        round_s: float = 1.0,
    ) -> None:
        self._source = source
        self._clock = clock
        self._owner_of = owner_of
        self._post = post
        self._interval_s = interval_s
        self._round_s = round_s
        self._devices: tuple[Device, ...] = ()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._rounds = 0
        """Since the last listing."""
        self._erring: frozenset[str] = frozenset()
        self._call: tuple[int, float] | None = None
        """The number of the call under way, and when it began (real, monotonic)."""
        self._began_s = -inf
        """The boot time at which the last reading began."""
        self._late = 0
        """The number of the last call for which error readings were posted."""
        self._troubles: dict[str, str] = {}
        """Why a device takes no new job, as the log has said it, by UUID."""
        self._reader = threading.Thread(target=self._read, name="monitor", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="monitor-watch", daemon=True)

    def start(self, devices: tuple[Device, ...]) -> None:
        self._devices = devices
        self._reader.start()
        self._watcher.start()

    def read_soon(self, after_s: float = inf) -> None:
        """Read at once, because something has changed on a device; not if a reading that began at
        `after_s` (boot time) or later is under way or done."""
        if self._began_s < after_s:
            self._wanted.set()

    def acknowledge(self, uuid: str) -> None:
        """Forget the faults that were read on this device; an administrator has checked it."""
        self._source.acknowledge(uuid)
        self.read_soon()

    def stop(self) -> None:
        """End the threads, of which one closes the source; one that hangs ends with the process."""
        self._stopping.set()
        self._wanted.set()
        if self._reader.is_alive():
            self._reader.join(STOP_LIMIT_S)

    # ------------------------------------------------------------- the watcher

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                self.look(time.monotonic())
            except Exception:
                log.exception("the reading thread cannot be looked at")

    def look(self, now_s: float) -> None:
        """Check the reading thread; `now_s` is real time on the monotonic clock."""
        number, since_s = self._call or (0, now_s)
        if now_s - since_s < HANG_S:
            return
        if self._late != number:
            self._late = number
            self._log_troubles({d.uuid: "the driver does not answer" for d in self._devices})
        cause = f"the driver has not answered for {now_s - since_s:.0f} s"
        at = self._clock.now()
        errors = tuple(Reading(device=d.uuid, at=at, error=cause) for d in self._devices)
        self._post(ReadingsTaken(at=at, readings=errors))

    # ------------------------------------------------------------- the log

    def _log_troubles(self, troubles: Mapping[str, str]) -> None:
        """Log which devices take no new job since now, and which are well again, each once."""
        new = {uuid: why for uuid, why in troubles.items() if self._troubles.get(uuid) != why}
        well = [uuid for uuid in self._troubles if uuid not in troubles]
        self._troubles = dict(troubles)
        for why in dict.fromkeys(new.values()):
            named = self._named(uuid for uuid, its in new.items() if its == why)
            log.error("%s: takes no new job: %s", named, why)
        if named := self._named(well):
            log.info("%s: can be used again", named)

    def _log_listing(self, devices: Sequence[Device]) -> None:
        """Log which devices have vanished, and which are new."""
        before, now = ({d.uuid: d for d in some} for some in (self._devices, devices))
        for device in (d for uuid, d in before.items() if uuid not in now):
            log.error("%s has vanished; see what nvidia-smi -L lists", _described(device))
        for device in (d for uuid, d in now.items() if uuid not in before):
            log.info("%s is new", _described(device))

    def _named(self, uuids: Iterable[str]) -> str:
        """Return `GPU 0-3` for those of these devices that are listed; "" for none."""
        wanted = set(uuids)
        found = [d.index for d in self._devices if d.uuid in wanted]
        return gpus_named(found) if found else ""

    # ------------------------------------------------------------- the reading thread

    def _read(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            self._call = number, time.monotonic()
            event = self._round()
            self._call = None
            if self._late != number and not self._stopping.is_set():
                found = {r.device: r.error or r.fault for r in event.readings if not r.held}
                self._log_troubles({uuid: why for uuid, why in found.items() if why is not None})
                self._post(event)
                self._wanted.wait(self._interval_s)
                self._wanted.clear()
        try:
            self._source.close()
        except Exception as error:
            log.warning("a source of readings could not be closed: %s", error)

    def _round(self) -> ReadingsTaken:
        """List the devices if that is due, and read them. A failure gives error readings."""
        # The time before the reading: a process that ended after it may still be in it.
        at = self._clock.now()
        readings: tuple[Reading, ...] = ()
        cause = None
        try:
            self._list()
            at = self._clock.now()
            self._began_s = at.boot_s
            uuids = [device.uuid for device in self._devices]
            readings = self._source.read(uuids, at, self._owner_of)
        except DeviceError as error:
            cause = str(error)
        except Exception as error:  # a source may fail in unforeseen ways
            cause = f"reading failed: {type(error).__name__}: {error}"
        self._rounds += 1
        self._take_errors(readings)
        if cause is not None:
            readings = tuple(Reading(device=d.uuid, at=at, error=cause) for d in self._devices)
        return ReadingsTaken(at=at, readings=readings)

    def _take_errors(self, readings: tuple[Reading, ...]) -> None:
        """List the devices soon if one begins to fail: it may have vanished."""
        erring = frozenset(reading.device for reading in readings if reading.error is not None)
        if erring - self._erring and self._rounds >= self.rounds(RELIST_SOON_S):
            self._rounds = self.rounds(RELIST_S)
        self._erring = erring

    def _list(self) -> None:
        """List the devices regularly, and soon after a change. Post them if they differ."""
        due_s = RELIST_SOON_S if self._source.changed else RELIST_S
        if self._rounds < self.rounds(due_s):
            return
        self._rounds = 0
        try:
            devices = self._source.devices()
        except DeviceError:
            return  # the readings report the failure, device by device
        if not self._stopping.is_set() and devices != self._devices:
            self._log_listing(devices)
            self._devices = devices
            self._post(DevicesSeen(at=self._clock.now(), devices=devices))

    def rounds(self, seconds: float) -> int:
        """Return the number of rounds in this time."""
        return max(1, round(seconds / self._round_s))


def _described(device: Device) -> str:
    return f"GPU {device.index} ({device.profile or device.name}, {device.uuid})"
