"""The memory of each process on a device.

With NVIDIA's open kernel modules the process ids are those of the reader's pid namespace, and
processes outside of it are not listed; older closed ones give the host's. Without a list (WSL2,
Jetson, some vGPUs) it is unknown which processes there are: this is not the same as none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from radrm.host.gpus.nvml import words
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place
from radrm.host.gpus.nvml.lists import processes_of_kind

_NO_INSTANCE = 0xFFFFFFFF


def held(library: Library, place: Place) -> dict[int, int | None] | None:
    """Return bytes by process id, None if unknown. None if the driver lists no processes.

    The driver lists MPS clients as compute processes, in their own list, or in both.
    """
    computing = _of_kind(library, place, "Compute")
    if computing is None:
        return None
    sums: dict[int, int | None] = {}
    for process in (*computing, *(_of_kind(library, place, "MPSCompute") or ())):
        before, now = sums.get(process.pid), process.usedGpuMemory
        sums[process.pid] = now if before is None else max(before, now or 0)
    return sums


def _of_kind(library: Library, place: Place, kind: str) -> Iterable[Any] | None:
    if not place.is_instance:
        return processes_of_kind(library, place.handle, kind)
    own = processes_of_kind(library, place.handle, kind, words.NOT_OFFERED_BY_INSTANCE)
    if place.instance is None:
        return own
    if own is not None:
        return [p for p in own if _instance(p) in (place.instance, (_NO_INSTANCE, _NO_INSTANCE))]
    # Some drivers list processes for the whole GPU only, each with its instance.
    every = processes_of_kind(library, place.gpu, kind)
    return None if every is None else [p for p in every if _instance(p) == place.instance]


def _instance(process: Any) -> tuple[int, int]:
    gpu = getattr(process, "gpuInstanceId", _NO_INSTANCE)
    compute = getattr(process, "computeInstanceId", _NO_INSTANCE)
    return gpu, compute
