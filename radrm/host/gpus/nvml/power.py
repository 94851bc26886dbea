"""Power in watts, from the energy counter if there is one, and the counter itself.

The mean power since the last reading counts, however the power varied. The driver's own power
figure covers only some tens of milliseconds to a second, by generation. It is used for the first
reading, and without a counter. A MIG instance has neither: the driver knows only the whole GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from radrm.host.gpus.nvml import figures
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place

POWER_MAX_W = 100_000.0
"""More than any device draws: a larger figure means "not available"."""
_SHORT_S = 0.5
"""The counter moves in steps, so a mean over less time is meaningless."""


@dataclass(slots=True)
class _Meter:
    energy_mj: int
    boot_s: float
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a device draws. `set_back`: the counter was reset with the driver."""

    power_w: float | None
    energy_j: float | None
    set_back: bool


class Power:
    """Remembers the last value of each device's counter."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._meters: dict[str, _Meter] = {}

    def read(self, uuid: str, place: Place, boot_s: float) -> Drawn:
        """Return the power in watts, and the counter in joules."""
        if place.is_instance:
            return Drawn(None, None, set_back=False)
        handle = place.handle
        energy_mj = self._library.offered("nvmlDeviceGetTotalEnergyConsumption", handle)
        meter = self._meters.get(uuid)
        set_back = meter is not None and energy_mj is not None and energy_mj < meter.energy_mj
        mean_w, sound = None, energy_mj is not None
        if energy_mj is None:
            self._meters.pop(uuid, None)
        elif meter is None or set_back or boot_s < meter.boot_s:
            self._meters[uuid] = _Meter(energy_mj, boot_s)
        elif boot_s - meter.boot_s < _SHORT_S:
            mean_w = meter.watts
            sound = mean_w != 0
        else:
            mean_w = (energy_mj - meter.energy_mj) / 1000 / (boot_s - meter.boot_s)
            mean_w = figures.within(mean_w, POWER_MAX_W)
            sound = bool(mean_w)
            self._meters[uuid] = _Meter(energy_mj, boot_s, mean_w)
        # A counter that stands still gives 0 W, which no GPU draws: use the driver's figure.
        energy_j = energy_mj / 1000 if sound else None
        return Drawn(mean_w or self._driver_power(handle), energy_j, set_back)

    def forget(self, uuid: str) -> None:
        self._meters.pop(uuid, None)

    def _driver_power(self, handle: Any) -> float | None:
        power_mw = self._library.offered("nvmlDeviceGetPowerUsage", handle)
        return figures.within(power_mw / 1000 if power_mw is not None else None, POWER_MAX_W)
