"""The driver's lists of the processes on one device."""

from __future__ import annotations

from typing import Any

from radrm.host.gpus.nvml.library import Library


def processes_of_kind(library: Library, handle: Any, kind: str) -> list[Any] | None:
    """Return the processes of a kind (Compute, MPSCompute, Graphics); None if there is no list."""
    for version in ("v3", "v2"):  # drivers before 510 have no v3
        name = f"nvmlDeviceGet{kind}RunningProcesses_{version}"
        found: list[Any] | None = library.offered(name, handle)
        if found is not None:
            return found
    return None


def no_process_on(library: Library, handle: Any) -> bool:
    """Return whether the driver lists no process on a device, not even a graphics process."""
    computing, clients, drawing = (
        processes_of_kind(library, handle, kind) for kind in ("Compute", "MPSCompute", "Graphics")
    )
    return computing == [] and not clients and not drawing
