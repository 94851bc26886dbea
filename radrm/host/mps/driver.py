"""Questions to the NVIDIA driver about one GPU."""

from __future__ import annotations

from radrm.host.gpus.nvml.library import query

VOLTA = 7
"""The first generation (major number of the compute capability) whose MPS servers can take
several users. On older GPUs control daemons accept the option, but clients then fail."""


def generation_of(uuid: str) -> int | None:
    """Return the major number of a GPU's compute capability; None if it cannot be read."""
    try:
        found = query(lambda nvml, gpu: nvml.nvmlDeviceGetCudaComputeCapability(gpu), uuid)
        return int(found[0])
    except Exception:  # any error means unknown
        return None
