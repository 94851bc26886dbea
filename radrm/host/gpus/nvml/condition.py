"""The condition of a GPU: memory errors, heat, a pending reset.

It is read every `EVERY_S`, for the whole GPU, whose MIG instances share it. No reading needs it,
so an error here means unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from radrm.host.gpus.nvml import words
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place

EVERY_S = 10.0

# NVML's own numbers.
_UNCORRECTED, _SINCE_LOADED = 1, 0
_GPU_CORE = 0
_SLOWDOWN_LIMIT = 1
_BY_HEAT = 0x20 | 0x40  # by software, by hardware
_BY_POWER_BRAKE = 0x80
_RECOVERY_ACTION = 230
_RECOVERY = {
    1: f"the driver reports that the GPU must be reset; {words.RESET}",
    2: f"the driver reports that the server must be rebooted; {words.REBOOT}",
    4: f"the driver reports that the GPU must be drained and reset; {words.RESET}",
    6: f"the driver reports that the GPU must be reset; {words.REBOOT}",
    7: f"the driver reports that the server must be rebooted; {words.REBOOT}",
}


@dataclass(frozen=True, slots=True)
class Found:
    """The condition at one time; `fault` and `notes` are those of a `Reading`.

    `set_back`: the error count has decreased, so the driver was loaded again.
    """

    boot_s: float
    fault: str | None = None
    notes: tuple[str, ...] = ()
    errors: int | None = None
    set_back: bool = False


class Condition:
    """Reads each GPU at most every `EVERY_S`, and remembers the result meanwhile."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._found: dict[str, Found] = {}

    def read(self, place: Place, boot_s: float) -> Found:
        """Return the condition of a GPU. `set_back` is True once per decrease."""
        before = self._found.get(place.gpu_uuid)
        if before is not None and 0 <= boot_s - before.boot_s < EVERY_S:
            return before
        found = self._look(place.gpu, boot_s, before)
        self._found[place.gpu_uuid] = replace(found, set_back=False)
        return found

    def forget(self, gpu_uuid: str) -> None:
        """Make the next `read` ask the driver."""
        self._found.pop(gpu_uuid, None)

    def _look(self, gpu: Any, boot_s: float, before: Found | None) -> Found:
        ask = self._library.call_or_none
        errors = ask("nvmlDeviceGetTotalEccErrors", gpu, _UNCORRECTED, _SINCE_LOADED)
        known = before.errors or 0 if before else 0
        notes: list[str] = []
        if errors:
            more = ", and growing" if before and errors > known else ""
            notes.append(
                f"uncorrected memory errors (ECC): {errors} since the driver was loaded{more}; "
                "see nvidia-smi -q -d ECC"
            )
        remapped = ask("nvmlDeviceGetRemappedRows", gpu) or (0, 0, 0, 0)
        retiring = ask("nvmlDeviceGetRetiredPagesPendingStatus", gpu)
        if remapped[2] or retiring:
            notes.append(f"reset pending: the next reset retires bad memory; {words.RESET}")
        if remapped[3]:
            notes.append("bad memory could not be remapped; have the GPU replaced")
        notes += self._heat(gpu)
        return Found(
            boot_s=boot_s,
            fault=self._recovery(gpu),
            notes=tuple(notes),
            errors=errors,
            set_back=errors is not None and errors < known,
        )

    def _heat(self, gpu: Any) -> list[str]:
        ask = self._library.call_or_none
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        if reasons is None:  # drivers before 535 have another name
            reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu) or 0
        celsius = ask("nvmlDeviceGetTemperature", gpu, _GPU_CORE)
        limit = ask("nvmlDeviceGetTemperatureThreshold", gpu, _SLOWDOWN_LIMIT)
        shown = "" if celsius is None else f" ({celsius} C)"
        if reasons & _BY_HEAT:
            return [f"slowed down by heat{shown}; check the cooling"]
        if celsius is not None and limit and celsius >= limit:
            return [f"hot{shown}: it slows down from {limit} C on; check the cooling"]
        if reasons & _BY_POWER_BRAKE:
            return ["slowed down by the server's power brake; check the power supply"]
        return []

    def _recovery(self, gpu: Any) -> str | None:
        """Return the recovery that newer drivers demand, also for Xids before radrm started."""
        values = self._library.call_or_none("nvmlDeviceGetFieldValues", gpu, [_RECOVERY_ACTION])
        if not values or values[0].nvmlReturn != 0:
            return None
        return _RECOVERY.get(values[0].value.uiVal)
