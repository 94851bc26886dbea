"""Kernels of chosen sizes, one after another: the load of Figure 3.1 of the thesis of RAD-RM.

It reads lines `BLOCKS THREADS SECONDS`. For each it launches `kernels.square` for that time, and
says in lines of JSON when the kernel runs and when the last one has ended. First it says how many
SMs there are.
"""

from __future__ import annotations

import json
import sys
import time

from kernels import Kernels

ROUNDS = 4000
"""About a millisecond for one thread: much longer than a launch takes."""
_BATCH_S = 0.05


def main() -> None:
    import torch

    items = torch.zeros(1, device="cuda")
    kernels = Kernels()
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    print(json.dumps({"sms": sms}), flush=True)
    for line in sys.stdin:
        blocks, threads, seconds = line.split()
        items = torch.zeros(int(blocks) * int(threads), device="cuda")

        def run(times: int, blocks: int = int(blocks), threads: int = int(threads)) -> float:
            began = time.monotonic()
            for _ in range(times):
                kernels.square(blocks, threads, items.data_ptr(), ROUNDS)  # noqa: B023
            torch.cuda.synchronize()
            return time.monotonic() - began

        run(1)  # loads the kernel
        times = max(1, round(_BATCH_S / max(1e-6, run(1))))
        print(json.dumps({"begun": times}), flush=True)
        end, done = time.monotonic() + float(seconds), 0
        while time.monotonic() < end:
            run(times)
            done += times
        print(json.dumps({"ended": done}), flush=True)


if __name__ == "__main__":
    main()
