"""Watts, from the energy counter where there is one.

What is wanted of power is energy: watts times the time since the last reading. So the mean
since the last reading is given, which makes that product exact however the power swings;
the driver's own figure covers some tens of milliseconds to a second, by generation. It
serves where there is no counter, and for the first reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from radrm.host.gpus.nvml import figures
from radrm.host.gpus.nvml.library import Library

POWER_MAX_W = 100_000.0
"""Above any device: a counter that means "not available"."""
_SHORT_S = 0.5
"""The counter moves in steps; over less time than this its slope means nothing."""


@dataclass(slots=True)
class _Meter:
    energy_mj: int
    boot_s: float
    watts: float | None = None


class Power:
    """Remembers where each device's counter stood."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._meters: dict[str, _Meter] = {}

    def read(self, uuid: str, handle: Any, boot_s: float) -> tuple[float | None, bool]:
        """Watts, and whether the counter has been set back: the driver was loaded anew."""
        energy_mj = self._library.offered("nvmlDeviceGetTotalEnergyConsumption", handle)
        meter = self._meters.get(uuid)
        set_back = meter is not None and energy_mj is not None and energy_mj < meter.energy_mj
        mean_w = None
        if energy_mj is None:
            self._meters.pop(uuid, None)
        elif meter is None or set_back or boot_s < meter.boot_s:
            self._meters[uuid] = _Meter(energy_mj, boot_s)
        elif boot_s - meter.boot_s < _SHORT_S:
            mean_w = meter.watts
        else:
            mean_w = (energy_mj - meter.energy_mj) / 1000 / (boot_s - meter.boot_s)
            self._meters[uuid] = _Meter(energy_mj, boot_s, figures.within(mean_w, POWER_MAX_W))
        # A counter that stands still is none: a GPU that can be read draws something.
        return figures.within(mean_w, POWER_MAX_W) or self._now(handle), set_back

    def forget(self, uuid: str) -> None:
        self._meters.pop(uuid, None)

    def _now(self, handle: Any) -> float | None:
        power_mw = self._library.offered("nvmlDeviceGetPowerUsage", handle)
        return figures.within(power_mw / 1000 if power_mw is not None else None, POWER_MAX_W)
