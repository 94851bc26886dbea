"""A GPU source around another one: only the GPUs that `gpus.only` names, until `gpus.until`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from radrm.config import Config, GpusConfig
from radrm.core.records import Device
from radrm.errors import DeviceError
from radrm.host.gpus.readings import open_gpus
from radrm.host.gpus.source import GpuSource, SourceAround
from radrm.structs import replace


def open_served(config: Config) -> GpuSource:
    """Open the real GPUs that radrm uses. Raises `DeviceError` if there are none."""
    return served(open_gpus(config.readings), config.gpus)


def served(source: GpuSource, config: GpusConfig) -> GpuSource:
    """Return a source of the devices that radrm uses. Raises `DeviceError` if there are none."""
    if not config.only and not config.until:
        return source
    until = datetime.fromisoformat(config.until).timestamp() if config.until else None
    around = ServedGpus(source, config.only, until)
    if not around.devices():
        source.close()
        names = ", ".join(config.only)
        raise DeviceError(f"gpus.only = [{names}] names no GPU of this server; see: nvidia-smi -L")
    return around


class ServedGpus(SourceAround):
    """The devices of `source` that `only` names (empty: all), available until an epoch second."""

    def __init__(self, source: GpuSource, only: Sequence[str], until: float | None) -> None:
        super().__init__(source)
        self._only = tuple(only)
        self._until = until

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            replace(each, available_until=self._until)
            for each in self.source.devices()
            if not self._only or any(_names(word, each) for word in self._only)
        )


def _names(word: str, device: Device) -> bool:
    """Return whether a setting's word, an index or a UUID's beginning, names a device."""
    if word.isdecimal():
        return str(device.index) == word
    return device.uuid.startswith(word) or (device.parent or "").startswith(word)
