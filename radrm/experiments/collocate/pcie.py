"""Measure the traffic between host and GPU while copies run, by samples of NVML.

The thesis' figure 4.4 counts bytes received over PCIe (DCGM field `pcie_rx_bytes`). A sample of
NVML is a mean over 20 ms; the round's figure is the mean of all samples. A sample blocks for
these 20 ms, so the measurement takes it with a connection of its own, not the daemon. MIG
instances have no such figure.
"""

from __future__ import annotations

import contextlib
from typing import Any

from radrm.host.gpus.nvml.library import load

_TX, _RX = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES
_KB = 1000.0
_MOST_KB_S = 1e9
"""More than any link can carry: such a value is an error of the driver."""


class Link:
    """The PCIe link of one GPU. After a failure, `sample` always returns None."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._gpu: Any = None
        if uuid.startswith("GPU-"):
            with contextlib.suppress(Exception):  # without NVML there is no figure
                pynvml = load()
                pynvml.nvmlInit()
                self._nvml = pynvml
                self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def sample(self) -> tuple[float, float] | None:
        """Megabytes (10^6) per second, received by the GPU and sent by it."""
        if self._gpu is None:
            return None
        try:
            found = [self._nvml.nvmlDeviceGetPcieThroughput(self._gpu, way) for way in (_RX, _TX)]
        except Exception:  # the GPU does not offer it, or the driver fails
            self._gpu = None
            return None
        if not all(0 <= kb_s < _MOST_KB_S for kb_s in found):
            return None
        received, sent = (kb_s * _KB / 1e6 for kb_s in found)
        return received, sent

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
        self._nvml = self._gpu = None


class Traffic:
    """The mean of the added samples; None without a sample."""

    def __init__(self) -> None:
        self._sums = [0.0, 0.0]
        self._count = 0

    def add(self, sample: tuple[float, float] | None) -> None:
        if sample is not None:
            self._sums = [total + part for total, part in zip(self._sums, sample, strict=True)]
            self._count += 1

    @property
    def received_mb_s(self) -> float | None:
        return self._sums[0] / self._count if self._count else None

    @property
    def sent_mb_s(self) -> float | None:
        return self._sums[1] / self._count if self._count else None
