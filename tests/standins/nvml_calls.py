"""Calls of the real `pynvml`, for tests of the library under it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

MIB = 1024 * 1024
INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TIMEOUT = 2, 3, 4, 6, 10
NO_DRIVER, NO_FUNCTION, LOST, RESET, MISMATCH, OLD_STRUCT = 9, 13, 15, 16, 18, 25
UNINITIALIZED, NO_DATA, UNKNOWN = 1, 21, 999
NO_INSTANCE = 0xFFFFFFFF
VOLATILE, AGGREGATE, CORRECTED, UNCORRECTED = 0, 1, 0, 1
XID = pynvml.nvmlEventTypeXidCriticalError


def handle(uuid: str) -> Any:
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def error(call: Callable[..., Any], *given: Any) -> int:
    with pytest.raises(pynvml.NVMLError) as caught:
        call(*given)
    number: int = caught.value.value
    return number


def memory(uuid: str, version: int | None = pynvml.nvmlMemory_v2) -> dict[str, int]:
    info = pynvml.nvmlDeviceGetMemoryInfo(handle(uuid), version=version)
    return {name: getattr(info, name) // MIB for name, _ in info._fields_ if name != "version"}


READERS = {
    "compute": pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    "mps": pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
    "graphics": pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
}


def held(uuid: str, kind: str = "compute") -> dict[int, int | None]:
    found = READERS[kind](handle(uuid))
    return {p.pid: p.usedGpuMemory and p.usedGpuMemory // MIB for p in found}
