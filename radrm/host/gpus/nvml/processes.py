"""The memory of each process on a device.

The ids are those of the caller's pid namespace with NVIDIA's open kernel modules: a radrm in a
container without the host's namespace (`--pid=host`) does not see processes outside it, though
their memory counts as used. The older closed modules give the host's ids everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place
from radrm.host.gpus.nvml.lists import processes_of_kind

_NO_INSTANCE = 0xFFFFFFFF


def held(library: Library, place: Place) -> dict[int, int | None]:
    """Return bytes by process id; None if unknown.

    The driver lists MPS clients as compute processes, in their own list, or in both.
    """
    sums: dict[int, int | None] = {}
    for kind in ("Compute", "MPSCompute"):
        for process in _of_kind(library, place, kind):
            before, now = sums.get(process.pid), process.usedGpuMemory
            sums[process.pid] = now if before is None else max(before, now or 0)
    return sums


def _of_kind(library: Library, place: Place, kind: str) -> Iterable[Any]:
    own = processes_of_kind(library, place.handle, kind)
    if place.instance is None:
        return own or ()
    if own is not None:
        return [p for p in own if _instance(p) in (place.instance, (_NO_INSTANCE, _NO_INSTANCE))]
    # Some drivers list processes for the whole GPU only, each with its instance.
    every = processes_of_kind(library, place.gpu, kind) or ()
    return [p for p in every if _instance(p) == place.instance]


def _instance(process: Any) -> tuple[int, int]:
    gpu = getattr(process, "gpuInstanceId", _NO_INSTANCE)
    compute = getattr(process, "computeInstanceId", _NO_INSTANCE)
    return gpu, compute
