"""A thread that reads the devices, regularly and on request.

It may hang or die without taking anything along: the daemon notices that readings
are stale, starts a new thread, and meanwhile the devices take no new job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from radrm.core.events import DevicesSeen, Event, ReadingsTaken
from radrm.core.records import Device, Reading
from radrm.errors import DeviceError
from radrm.host.clock import Clock
from radrm.host.source import GpuSource, OwnerOf

log = logging.getLogger("radrm")

RELIST_EVERY = 60
"""Rounds of reading between two looks at which devices there are."""


class Monitor:
    """Posts `ReadingsTaken` every `interval_s` real seconds, and at once when asked."""

    def __init__(
        self,
        source: GpuSource,
        clock: Clock,
        owner_of: OwnerOf,
        post: Callable[[Event], None],
        interval_s: float,
    ) -> None:
        self._source = source
        self._clock = clock
        self._owner_of = owner_of
        self._post = post
        self._interval_s = interval_s
        self._wanted = threading.Event()
        self._stopping = False
        self._devices: tuple[Device, ...] = ()
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def start(self, devices: tuple[Device, ...]) -> None:
        self._devices = devices
        self._thread.start()

    def read_soon(self) -> None:
        """Something has changed on a device: do not wait for the next round."""
        self._wanted.set()

    def ensure_alive(self) -> None:
        """Start again after a death that nobody expected."""
        if not self._thread.is_alive() and not self._stopping:
            log.error("the reading thread has died and is started again")
            self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wanted.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        rounds = 0
        while not self._stopping:
            if rounds % RELIST_EVERY == RELIST_EVERY - 1:
                self._relist()
            self._post(ReadingsTaken(at=self._clock.now(), readings=self._read()))
            rounds += 1
            self._wanted.wait(self._interval_s)
            self._wanted.clear()

    def _read(self) -> tuple[Reading, ...]:
        uuids = [device.uuid for device in self._devices]
        # The time before the reading: what ended after it may still have been seen by it.
        at = self._clock.now()
        try:
            readings = self._source.read(uuids, at, self._owner_of)
            self._say(None)
            return readings
        except DeviceError as error:
            trouble = str(error)
        except Exception as error:  # a source may fail in ways that nobody has foreseen
            trouble = f"reading failed: {type(error).__name__}: {error}"
        self._say(trouble)
        return tuple(Reading(device=uuid, at=at, error=trouble) for uuid in uuids)

    def _relist(self) -> None:
        try:
            devices = self._source.devices()
        except Exception:
            return  # the readings say so, device by device
        if devices != self._devices:
            self._devices = devices
            self._post(DevicesSeen(at=self._clock.now(), devices=devices))

    def _say(self, trouble: str | None) -> None:
        """Once when it begins, once when it is over."""
        if trouble != self._trouble:
            if trouble is not None:
                log.error("the devices cannot be read: %s", trouble)
            else:
                log.info("the devices can be read again")
            self._trouble = trouble
