"""A GPU source around another one, which marks the devices under MPS."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.config import MpsConfig
from radrm.core.records import Device, Instant, Reading
from radrm.host.gpus.source import GpuSource, OwnerOf, SourceAround
from radrm.host.mps.service import MpsService, is_enabled
from radrm.structs import replace


class MpsGpus(SourceAround):
    """The devices and readings of `source`, with what the keepers of control daemons see.

    `Device.mps` stays true while a device is under MPS. If its control daemon takes no client
    now, the reading has a fault, so that jobs wait for it. When `Device.mps` changes between two
    listings, the thread that reads reports the new devices to the daemon.
    """

    def __init__(self, source: GpuSource, service: MpsService) -> None:
        super().__init__(source)
        self._service = service

    def devices(self) -> tuple[Device, ...]:
        return self._service.flag_devices(self.source.devices())

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        self._service.report_changes()
        own = self._service.servers()
        readings = self.source.read(uuids, at, owner_of)
        return tuple(self._seen(reading, own) for reading in readings)

    def _seen(self, reading: Reading, own: set[int]) -> Reading:
        keeper = self._service.keeper_of(reading.device)
        hold = keeper.hold if keeper is not None else None
        if hold is not None and reading.error is None and reading.fault is None:
            reading = replace(reading, fault=hold)
        # MPS servers are no unmanaged processes. The memory that they use still counts as used.
        if own.isdisjoint(each.pid for each in reading.processes):
            return reading
        marked = (replace(s, mps=True) if s.pid in own else s for s in reading.processes)
        return replace(reading, processes=tuple(marked))


class EnabledOnly(SourceAround):
    """Removes MPS from the devices that `mps.enabled` does not name."""

    def __init__(self, source: GpuSource, config: MpsConfig) -> None:
        super().__init__(source)
        self._config = config

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            d if is_enabled(self._config, d) else replace(d, mps=False, mps_spans=False)
            for d in self.source.devices()
        )
