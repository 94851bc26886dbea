"""The driver's lists of the processes on one device, as it gives them."""

from __future__ import annotations

from typing import Any

from radrm.host.gpus.nvml.library import Library


def listed(library: Library, handle: Any, kind: str) -> list[Any] | None:
    """The processes of a kind: Compute, MPSCompute or Graphics. None where none is offered."""
    for version in ("v3", "v2"):  # drivers before 510 have no v3
        name = f"nvmlDeviceGet{kind}RunningProcesses_{version}"
        found: list[Any] | None = library.offered(name, handle)
        if found is not None:
            return found
    return None


def nobody(library: Library, handle: Any) -> bool:
    """Whether the driver says that no process is on a device, be it one that only draws."""
    computing, clients, drawing = (
        listed(library, handle, kind) for kind in ("Compute", "MPSCompute", "Graphics")
    )
    return computing == [] and not clients and not drawing
