"""How the measures of a GPU's load grow with blocks and threads (thesis of RAD-RM, Figure 3.1).

Runs `square` with so many blocks of so many threads, one size after the other. While the GPU is
at work it takes two GPM samples and the utilization, and prints one line of JSON for each size.
Needs PyTorch and nvidia-ml-py.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

BLOCKS = (1, 33, 132, 1056)
THREADS = (1, 32, 256, 1024)
_LAUNCH_S = 0.02
"""About so long one launch takes."""
_MOST_LAUNCHES = 500
_SETTLE_S = 0.3


class Counters:
    """The driver's counters of one GPU; what it does not offer is None."""

    def __init__(self, uuid: str) -> None:
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self._samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        self._metrics = {
            "graphics": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
            "smact": pynvml.NVML_GPM_METRIC_SM_UTIL,
            "occupancy": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
        }

    def over(self, seconds: float) -> dict[str, float | None]:
        """The mean over the next seconds, each 0..1."""
        nvml = self._nvml
        nvml.nvmlGpmSampleGet(self._gpu, self._samples[0])
        time.sleep(seconds)
        nvml.nvmlGpmSampleGet(self._gpu, self._samples[1])
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(self._metrics)
        asked.sample1, asked.sample2 = self._samples
        for place, number in enumerate(self._metrics.values()):
            asked.metrics[place].metricId = number
        nvml.nvmlGpmMetricsGet(asked)
        found = {
            name: None if asked.metrics[place].nvmlReturn else asked.metrics[place].value / 100
            for place, name in enumerate(self._metrics)
        }
        return {"utilization": nvml.nvmlDeviceGetUtilizationRates(self._gpu).gpu / 100, **found}


def rounds_for(kernels: Any, torch: Any, size: tuple[int, int], address: int) -> int:
    """How often a thread squares its number in a launch of about `_LAUNCH_S`."""
    rounds = 256
    while True:
        began = time.monotonic()
        kernels.square(*size, address, rounds)
        torch.cuda.synchronize()
        took_s = time.monotonic() - began
        if took_s >= _LAUNCH_S / 2 or rounds >= 1 << 26:
            return rounds
        rounds *= 2


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Load measures by blocks and threads.")
    parser.add_argument("--gpu", required=True, metavar="UUID")
    parser.add_argument("--seconds", type=float, default=1.5, help="between the two samples")
    args = parser.parse_args(argv)

    import torch
    from kernels import Kernels

    numbers = torch.zeros(BLOCKS[-1] * THREADS[-1], device="cuda")
    kernels, counters = Kernels(), Counters(args.gpu)
    for threads in THREADS:
        for blocks in BLOCKS:
            size = blocks, threads
            rounds = rounds_for(kernels, torch, size, numbers.data_ptr())
            began = time.monotonic()
            kernels.square(*size, numbers.data_ptr(), rounds)
            torch.cuda.synchronize()
            launch_s = max(1e-4, time.monotonic() - began)
            count = min(_MOST_LAUNCHES, round((args.seconds + 2 * _SETTLE_S) / launch_s) + 1)
            for _ in range(count):
                kernels.square(*size, numbers.data_ptr(), rounds)
            time.sleep(_SETTLE_S)
            found = counters.over(args.seconds)
            torch.cuda.synchronize()
            line = {"blocks": blocks, "threads": threads, "launch_s": launch_s, **found}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
