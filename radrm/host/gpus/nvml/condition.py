"""The condition of a GPU: memory errors, heat, a pending reset, its NVLink fabric.

It is read every `EVERY_S`, for the whole GPU, whose MIG instances share it. No reading needs it,
so an error here means unknown.

The fabric manager registers each GPU of an NVSwitch system with the fabric after a boot. Before
that CUDA fails there with error 802. After a registration that failed, some systems can use CUDA
and others cannot, so an administrator may accept it (`accept`). A GPU without NVSwitches reports
no fabric. A restart forgets what was accepted.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from radrm.host.gpus.nvml.library import (
    ARGUMENT_VERSION,
    FUNCTION_NOT_FOUND,
    INVALID_ARGUMENT,
    REBOOT,
    RESET,
    Library,
)
from radrm.host.gpus.nvml.listing import Place
from radrm.structs import replace

EVERY_S = 10.0

# NVML's own numbers.
_UNCORRECTED, _SINCE_LOADED = 1, 0
_GPU_CORE = 0
_SLOWDOWN_LIMIT = 1
_BY_HEAT = 0x20 | 0x40  # by software, by hardware
_BY_POWER_BRAKE = 0x80
_RECOVERY_ACTION = 230
NO_RECOVERY = 0
# The first of these that pynvml and the driver have is used; drivers before 550 have the last.
_FABRIC_CALLS = (
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t"),
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
    ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
)
_OTHER_VERSION = (FUNCTION_NOT_FOUND, ARGUMENT_VERSION, INVALID_ARGUMENT)
_FABRIC_PENDING = {1: "not started", 2: "in progress"}
_FABRIC_COMPLETED = 3
_SEE_FABRIC = "see systemctl status nvidia-fabricmanager"
_RECOVERY = {
    1: f"the driver reports that the GPU must be reset; {RESET}",
    2: f"the driver reports that the server must be rebooted; {REBOOT}",
    4: f"the driver reports that the GPU must be drained and reset; {RESET}",
    6: f"the driver reports that the GPU must be reset; {REBOOT}",
    7: f"the driver reports that the server must be rebooted; {REBOOT}",
}


class Found(Struct, frozen=True):
    """The condition at one time; `fault` and `notes` are those of a `Reading`.

    `set_back`: the error count has decreased, so the driver was loaded again. `recovery`: the
    driver's recovery action, 0 for none; None if it reports none.
    """

    boot_s: float
    fault: str | None = None
    notes: tuple[str, ...] = ()
    errors: int | None = None
    set_back: bool = False
    recovery: int | None = None


class Condition:
    """Reads each GPU at most every `EVERY_S`, and remembers the result meanwhile."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._found: dict[str, Found] = {}
        self._to_accept: set[str] = set()
        self._accepted: dict[str, str] = {}
        """The fault of a GPU's fabric that an administrator has accepted."""

    def read(self, place: Place, boot_s: float) -> Found:
        """Return the condition of a GPU. `set_back` is True once per decrease."""
        before = self._found.get(place.gpu_uuid)
        if before is not None and 0 <= boot_s - before.boot_s < EVERY_S:
            return before
        found = self._look(place.gpu_uuid, place.gpu, boot_s, before)
        self._found[place.gpu_uuid] = replace(found, set_back=False)
        return found

    def forget(self, gpu_uuid: str) -> None:
        """Make the next `read` ask the driver."""
        self._found.pop(gpu_uuid, None)

    def ask_again(self, gpu_uuid: str) -> None:
        """Make the next `read` ask the driver, and compare the counters with the last ones."""
        found = self._found.get(gpu_uuid)
        if found is not None:
            self._found[gpu_uuid] = replace(found, boot_s=-math.inf)

    def accept(self, gpu_uuid: str) -> None:
        """Make the present fault of a GPU's fabric a note, until the fabric's state changes."""
        self._to_accept.add(gpu_uuid)
        self.ask_again(gpu_uuid)

    def take_over(self, other: Condition) -> None:
        self._accepted = dict(other._accepted)

    def _look(self, uuid: str, gpu: Any, boot_s: float, before: Found | None) -> Found:
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
            notes.append(f"reset pending: the next reset retires bad memory; {RESET}")
        if remapped[3]:
            notes.append("bad memory could not be remapped; have the GPU replaced")
        notes += self._heat(gpu)
        recovery = self._recovery(gpu)
        fabric, about_fabric = self._fabric_condition(uuid, gpu)
        return Found(
            boot_s=boot_s,
            fault=_RECOVERY.get(recovery or NO_RECOVERY, fabric),
            notes=(*notes, *about_fabric),
            errors=errors,
            set_back=errors is not None and errors < known,
            recovery=recovery,
        )

    def _fabric_condition(self, uuid: str, gpu: Any) -> tuple[str | None, tuple[str, ...]]:
        """Return the fault of a GPU's fabric, and notes: a fault that is accepted is a note."""
        accepting = uuid in self._to_accept
        self._to_accept.discard(uuid)
        fault = self._fabric_fault(gpu)
        if fault is None or not (accepting or self._accepted.get(uuid) == fault):
            self._accepted.pop(uuid, None)
            hint = f"{_SEE_FABRIC}; if CUDA works there nevertheless: radrm resume GPU"
            return (fault and f"{fault}: CUDA may fail there (error 802); {hint}"), ()
        self._accepted[uuid] = fault
        return None, (f"{fault}; an administrator has accepted this",)

    def _fabric_fault(self, gpu: Any) -> str | None:
        """Return why the NVLink fabric keeps jobs from a GPU; None if it does not."""
        state, status = self._fabric(gpu) or (0, 0)
        if state in _FABRIC_PENDING:
            return f"its NVLink fabric is not ready ({_FABRIC_PENDING[state]})"
        if state == _FABRIC_COMPLETED and status != 0:
            return f"its registration with the NVLink fabric failed (NVML error {status})"
        return None

    def _fabric(self, gpu: Any) -> tuple[int, int] | None:
        """Return the state of a GPU's registration with the fabric, and its error; None: unknown.

        `pynvml` takes a reference to the structure that the driver fills.
        """
        from ctypes import byref  # imported here: simulated GPUs need no `pynvml` and no `ctypes`

        for name, structure in _FABRIC_CALLS:
            make = getattr(self._library.pynvml, structure, None)
            if make is None:
                continue
            info = make()
            try:
                self._library.call(name, gpu, byref(info))
            except self._library.Error as error:
                if error.value in _OTHER_VERSION:
                    continue
                return None
            return int(info.state), int(info.status)
        return None

    def _heat(self, gpu: Any) -> list[str]:
        ask = self._library.call_or_none
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", gpu) or 0
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

    def _recovery(self, gpu: Any) -> int | None:
        """Return the recovery that newer drivers demand, also for Xids before radrm started."""
        values = self._library.call_or_none("nvmlDeviceGetFieldValues", gpu, [_RECOVERY_ACTION])
        if not values or values[0].nvmlReturn != 0:
            return None
        return int(values[0].value.uiVal)
