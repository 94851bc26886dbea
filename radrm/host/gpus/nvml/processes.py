"""Who holds how much memory on a device, by process id.

The ids are those of the machine, also for processes in containers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place
from radrm.host.gpus.nvml.lists import listed

_NO_INSTANCE = 0xFFFFFFFF


def held(library: Library, place: Place) -> dict[int, int | None]:
    """Bytes by process id; None where the driver does not tell.

    Clients of MPS may stand in the list of computing processes, in their own, or in both.
    """
    sums: dict[int, int | None] = {}
    for kind in ("Compute", "MPSCompute"):
        for process in _of_kind(library, place, kind):
            before, now = sums.get(process.pid), process.usedGpuMemory
            sums[process.pid] = now if before is None else max(before, now or 0)
    return sums


def _of_kind(library: Library, place: Place, kind: str) -> Iterable[Any]:
    own = listed(library, place.handle, kind)
    if place.instance is None:
        return own or ()
    if own is not None:
        return [p for p in own if _instance(p) in (place.instance, (_NO_INSTANCE, _NO_INSTANCE))]
    # Some drivers list for the whole GPU only, and then say whose each process is.
    every = listed(library, place.gpu, kind) or ()
    return [p for p in every if _instance(p) == place.instance]


def _instance(process: Any) -> tuple[int, int]:
    gpu = getattr(process, "gpuInstanceId", _NO_INSTANCE)
    compute = getattr(process, "computeInstanceId", _NO_INSTANCE)
    return gpu, compute
