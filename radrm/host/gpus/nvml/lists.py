"""The driver's lists of the processes on one device."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from radrm.host.gpus.nvml import words
from radrm.host.gpus.nvml.library import Library


def processes_of_kind(
    library: Library, handle: Any, kind: str, refusals: Collection[int] = words.NOT_OFFERED
) -> list[Any] | None:
    """Return the processes of a kind (Compute, MPSCompute, Graphics); None if there is no list.

    `refusals` are the errors that mean this.
    """
    for version in ("v3", "v2"):  # drivers before 510 have no v3
        name = f"nvmlDeviceGet{kind}RunningProcesses_{version}"
        try:
            found: list[Any] = library.call(name, handle)
        except library.Error as error:
            if error.value not in refusals:
                raise
        else:
            return found
    return None


def held_by_all(library: Library, handle: Any) -> int:
    """Return the bytes that the listed processes on a GPU use, as far as they are known."""
    held: dict[int, int] = {}
    for kind in ("Compute", "MPSCompute", "Graphics"):
        for process in processes_of_kind(library, handle, kind) or ():
            held[process.pid] = max(held.get(process.pid, 0), process.usedGpuMemory or 0)
    return sum(held.values())


def no_process_on(library: Library, handle: Any) -> bool:
    """Return whether the driver lists no process on a device, not even a graphics process."""
    computing, clients, drawing = (
        processes_of_kind(library, handle, kind) for kind in ("Compute", "MPSCompute", "Graphics")
    )
    return computing == [] and not clients and not drawing
