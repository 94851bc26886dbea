"""What MPS asks and tells the NVIDIA driver of a GPU, by a connection of its own each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

VOLTA = 7
"""The first generation, as the major number of its compute capability, whose MPS servers can
take several users. Before, control daemons accept the option and clients then fail."""


def asked(what: Callable[[Any, Any], Any], uuid: str) -> Any:
    """What `what` answers, given `pynvml` and the GPU's handle. Raises whatever it does."""
    import pynvml  # where it is missing there is no GPU either

    pynvml.nvmlInit()
    try:
        return what(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
    finally:
        pynvml.nvmlShutdown()


def generation_of(uuid: str) -> int | None:
    """The major number of a GPU's compute capability; None where the driver does not tell."""
    try:
        found = asked(lambda nvml, gpu: nvml.nvmlDeviceGetCudaComputeCapability(gpu), uuid)
        return int(found[0])
    except Exception:  # whatever it is: nothing is known then
        return None
