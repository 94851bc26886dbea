"""A GPU load of known size, for the acceptance tests: run as a radrm job, or by hand.

    matmul.py --seconds 20                 matrix products: all of the GPU
    matmul.py --seconds 20 --busy 0.5      at work for half of the time
    matmul.py --seconds 20 --spin 16       kernels of one block each: 16 SMs at the most
    matmul.py --steps 5 --cpu              the same without a GPU, and without PyTorch

Prints `step N` as it goes, and one line of JSON at its end: the steps, the time, and what
PyTorch says it held at the most.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any, Protocol

_BATCH_S = 0.02
"""About so long the GPU is at work between two looks at the clock."""


class Work(Protocol):
    def step(self) -> None:
        """Some work, done when this returns."""
        ...

    def reserved_mib(self) -> int | None: ...


class CpuWork:
    """So that the rest of this file can be tried anywhere."""

    def step(self) -> None:
        sum(range(10_000))

    def reserved_mib(self) -> int | None:
        return None


class CudaWork:
    """Batches of matrix products, or of spinning kernels of one block."""

    def __init__(self, size: int, memory_mib: int, spin: int) -> None:
        import torch

        self._torch: Any = torch
        self._held = torch.empty(memory_mib << 20, dtype=torch.uint8, device="cuda")
        self._streams = [torch.cuda.Stream() for _ in range(spin)]
        self._a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
        self._b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
        self._out = torch.empty_like(self._a)
        self._repeat = 1
        self._batch()  # loads the kernels
        began = time.monotonic()
        self._batch()
        self._repeat = max(1, round(_BATCH_S / max(1e-6, time.monotonic() - began)))

    def step(self) -> None:
        self._batch()

    def _batch(self) -> None:
        torch = self._torch
        if self._streams:
            for stream in self._streams:
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(20_000_000)  # cycles, by one thread: about 0.01 s
        else:
            for _ in range(self._repeat):
                torch.matmul(self._a, self._b, out=self._out)
        torch.cuda.synchronize()

    def reserved_mib(self) -> int | None:
        return int(self._torch.cuda.max_memory_reserved() >> 20)


def pause_s(worked_s: float, busy: float) -> float:
    """How long to rest after so much work to be at work for a part `busy` (0..1] of the time."""
    return worked_s * (1 - busy) / busy


def run(work: Work, seconds: float, steps: int, busy: float, print_every_s: float) -> int:
    """Until the time or the steps are over, whichever is first; how many steps were done."""
    began = time.monotonic()
    done, printed_s = 0, 0.0
    while done < steps and time.monotonic() - began < seconds:
        before = time.monotonic()
        work.step()
        done += 1
        time.sleep(pause_s(time.monotonic() - before, busy))
        elapsed_s = time.monotonic() - began
        if elapsed_s - printed_s >= print_every_s or done == steps:
            printed_s = elapsed_s
            print(f"step {done}", flush=True)
    return done


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A GPU load of known size.")
    add = parser.add_argument
    add("--seconds", type=float, default=3600.0)
    add("--steps", type=int, default=10**9)
    add("--size", type=int, default=4096, help="rows and columns of the matrices")
    add("--memory", type=int, default=0, metavar="MIB", help="held besides")
    add("--busy", type=float, default=1.0, help="part of the time at work")
    add("--spin", type=int, default=0, metavar="K", help="K kernels of one block at a time")
    add("--print-every", type=float, default=0.5, metavar="S")
    add("--cpu", action="store_true", help="without a GPU")
    args = parser.parse_args(argv)
    # Before CUDA begins: as many kernels of different streams at once.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    work: Work = CpuWork() if args.cpu else CudaWork(args.size, args.memory, args.spin)
    began = time.monotonic()
    done = run(work, args.seconds, args.steps, args.busy, args.print_every)
    report = {
        "steps": done,
        "seconds": time.monotonic() - began,
        "reserved_mib": work.reserved_mib(),
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "mps_pipes": os.environ.get("CUDA_MPS_PIPE_DIRECTORY"),
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
