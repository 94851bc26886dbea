"""A GPU source whose devices say whether MPS serves them, around any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from radrm.config import MpsConfig
from radrm.core.records import Device, Instant, Reading
from radrm.host.gpus.readings import take_over
from radrm.host.gpus.source import GpuSource, OwnerOf
from radrm.host.mps.service import MpsService, is_meant


class MpsGpus:
    """The devices and readings of `source`, with what the keepers of their control daemons see.

    `Device.mps` holds while a device is under MPS; a control daemon that takes no client at
    the moment is a fault in its readings, so that jobs wait for it. When that changes between
    two listings, the daemon is told the devices as they are now, by the thread that reads.
    """

    def __init__(self, source: GpuSource, service: MpsService) -> None:
        self.name = source.name
        self._source = source
        self._service = service

    def devices(self) -> tuple[Device, ...]:
        return self._service.know(self._source.devices())

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        self._service.tell()
        own = self._service.servers()
        readings = self._source.read(uuids, at, owner_of)
        return tuple(self._seen(reading, own) for reading in readings)

    @property
    def changed(self) -> bool:
        return bool(getattr(self._source, "changed", False))

    def acknowledge(self, uuid: str) -> None:
        acknowledge = getattr(self._source, "acknowledge", None)
        if acknowledge is not None:
            acknowledge(uuid)

    def take_over(self, other: MpsGpus) -> None:
        """As `readings.take_over`."""
        take_over(self._source, other._source)

    def close(self) -> None:
        self._source.close()

    def _seen(self, reading: Reading, own: set[int]) -> Reading:
        keeper = self._service.keeper_of(reading.device)
        hold = keeper.hold if keeper is not None else None
        if hold is not None and reading.error is None and reading.fault is None:
            reading = replace(reading, fault=hold)
        # The server holds memory for its clients: counted, but nobody's unknown process.
        strangers = tuple(s for s in reading.strangers if s.pid not in own)
        return reading if strangers == reading.strangers else replace(reading, strangers=strangers)


class OnlySome:
    """Devices of which just some are under MPS: those that `mps.enabled` lists."""

    def __init__(self, source: GpuSource, config: MpsConfig) -> None:
        self.name = source.name
        self._source = source
        self._config = config

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            d if is_meant(self._config, d) else replace(d, mps=False, mps_spans=False)
            for d in self._source.devices()
        )

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        return self._source.read(uuids, at, owner_of)

    def close(self) -> None:
        self._source.close()
