"""Kernels of chosen sizes, one after another: the load of Figure 3.1 of the thesis of RAD-RM.

It reads lines `BLOCKS THREADS SECONDS`. For each it launches `kernels.square` for that time, and
says in lines of JSON when the kernel runs and when the last one has ended. First it says how many
SMs there are.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from kernels import Kernels

ROUNDS = 4000
"""About a millisecond for one thread: much longer than a launch takes."""
_BATCH_S = 0.05


def run(launch: Callable[[], None], times: int) -> float:
    """Return the seconds of so many launches."""
    began = time.monotonic()
    for _ in range(times):
        launch()
    torch.cuda.synchronize()
    return time.monotonic() - began


def main() -> None:
    items = torch.zeros(1, device="cuda")
    kernels = Kernels()
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    print(json.dumps({"sms": sms}), flush=True)
    for line in sys.stdin:
        blocks, threads, seconds = line.split()
        items = torch.zeros(int(blocks) * int(threads), device="cuda")

        launch = partial(kernels.square, int(blocks), int(threads), items.data_ptr(), ROUNDS)
        run(launch, 1)  # loads the kernel
        times = max(1, round(_BATCH_S / max(1e-6, run(launch, 1))))
        print(json.dumps({"begun": times}), flush=True)
        end, done = time.monotonic() + float(seconds), 0
        while time.monotonic() < end:
            run(launch, times)
            done += times
        print(json.dumps({"ended": done}), flush=True)


if __name__ == "__main__":
    main()
