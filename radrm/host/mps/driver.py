"""Calls to the NVIDIA driver about one GPU. Each call opens and closes its own connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

VOLTA = 7
"""The first generation (major number of the compute capability) whose MPS servers can take
several users. On older GPUs control daemons accept the option, but clients then fail."""


def query(what: Callable[[Any, Any], Any], uuid: str) -> Any:
    """Return the result of `what`, called with `pynvml` and the handle of the GPU.

    Raises what the import, NVML and `what` raise.
    """
    import pynvml  # imported here: machines without GPUs may lack it

    pynvml.nvmlInit()
    try:
        return what(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
    finally:
        pynvml.nvmlShutdown()


def generation_of(uuid: str) -> int | None:
    """Return the major number of a GPU's compute capability; None if it cannot be read."""
    try:
        found = query(lambda nvml, gpu: nvml.nvmlDeviceGetCudaComputeCapability(gpu), uuid)
        return int(found[0])
    except Exception:  # any error means unknown
        return None
