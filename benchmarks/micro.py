"""Measure what a GPU's figures say of kernels of known size: Figure 3.1 of the thesis of RAD-RM.

    python -m benchmarks.micro [--seconds 3] [--gpu UUID]

A kernel in which each thread fetches an item and calculates its square runs with growing numbers of
blocks and threads. Beside each size stand utilization (NVML), SMACT as a daemon of radrm reads it,
and GRACT and SMOCC, which no rule uses, as GPM gives them. It needs a GPU with hardware counters,
and a Python with PyTorch (RADRM_GPU_TEST_PYTHON). The acceptance run does the same
(docs/lab/acceptance.md).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from benchmarks import markdown
from radrm.config import ReadingsConfig
from radrm.core.records import Instant
from radrm.errors import DeviceError
from radrm.host.gpus.nvml.library import load
from radrm.host.gpus.readings import open_gpus
from tests.gpu import torch_python
from tests.gpu.server import PROGRAMS, mean

EVERY_S = 0.5
SETTLE_S = 1.2
"""NVML's utilization is that of the last second at most."""
_THREADS = (1, 32, 256, 1024)
_BLOCKS_PER_SM = (0.5, 1, 8, 32)
"""An SM of the A100 and of the H100 has room for 32 blocks."""


class Sample(Struct, frozen=True):
    """What is read at `at_s` (monotonic seconds). Ratios in 0..1; None: not offered, or not yet."""

    at_s: float
    utilization: float | None
    gract: float | None
    smact: float | None
    smocc: float | None
    used_mib: int | None


class _Counters:
    """Further figures of one GPU between two looks, by GPM."""

    _IDS = (1, 3)
    """Of the graphics activity (GRACT) and of the SMs' occupancy (SMOCC)."""

    def __init__(self, nvml: Any, uuid: str) -> None:
        self._nvml, self._uuid = nvml, uuid
        self._before: Any = None

    def read(self) -> tuple[float | None, float | None]:
        """Return GRACT and SMOCC since the last look, each in 0..1; None: not offered, or not
        yet."""
        try:
            gpu = self._nvml.nvmlDeviceGetHandleByUUID(self._uuid)
            before, self._before = self._before, self._nvml.nvmlGpmSampleAlloc()
            self._nvml.nvmlGpmSampleGet(gpu, self._before)
            if before is None:
                return None, None
            gract, smocc = self._between(before, self._before)
            self._nvml.nvmlGpmSampleFree(before)
            return gract, smocc
        except self._nvml.NVMLError:
            return None, None

    def _between(self, first: Any, second: Any) -> list[float | None]:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version = 1
        request.sample1, request.sample2 = first, second
        request.numMetrics = len(self._IDS)
        for at, number in enumerate(self._IDS):
            request.metrics[at].metricId = number
        self._nvml.nvmlGpmMetricsGet(request)
        found = [request.metrics[at] for at in range(len(self._IDS))]
        return [each.value / 100 if each.nvmlReturn == 0 else None for each in found]


class Sampler:
    """Reads one GPU all the time, in a thread of its own, as a daemon reads it.

    Raises DeviceError where no GPU can be read.
    """

    def __init__(self, uuid: str | None = None, every_s: float = EVERY_S) -> None:
        self._gpus = open_gpus(ReadingsConfig(interval_s=every_s))
        uuids = [device.uuid for device in self._gpus.devices()]
        self.uuid = uuid or next(iter(uuids), "")
        if self.uuid not in uuids:
            self._gpus.close()
            raise DeviceError(f"no GPU {self.uuid or 'at all'} here")
        self._nvml: Any = load()
        self._nvml.nvmlInit()
        self._counters = _Counters(self._nvml, self.uuid)
        self._every_s = every_s
        self._samples: list[Sample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._gpus.close()
        self._nvml.nvmlShutdown()

    def between(self, since_s: float, until_s: float) -> list[Sample]:
        return [each for each in list(self._samples) if since_s <= each.at_s <= until_s]

    def _read(self) -> None:
        while not self._over.wait(self._every_s):
            now_s = time.monotonic()
            (reading,) = self._gpus.read([self.uuid], Instant(now_s, now_s), lambda pid: None)
            sound = None if reading.smact_coarse else reading.smact
            gract, smocc = self._counters.read()
            self._samples.append(
                Sample(
                    at_s=now_s,
                    utilization=self._utilization(),
                    gract=gract,
                    smact=sound,
                    smocc=smocc,
                    used_mib=reading.used_mib,
                )
            )

    def _utilization(self) -> float | None:
        try:
            gpu = self._nvml.nvmlDeviceGetHandleByUUID(self.uuid)
            return float(self._nvml.nvmlDeviceGetUtilizationRates(gpu).gpu) / 100
        except self._nvml.NVMLError:
            return None


class Point(Struct, frozen=True):
    """The mean figures while kernels of this size ran."""

    blocks: int
    threads: int
    utilization: float | None
    gract: float | None
    smact: float | None
    smocc: float | None
    samples: int


def sizes(sms: int) -> list[tuple[int, int]]:
    """Blocks and threads of a block, for a GPU of so many SMs: from one thread on."""
    blocks = [1, *dict.fromkeys(max(1, int(part * sms)) for part in _BLOCKS_PER_SM)]
    return [(each, threads) for each in blocks for threads in _THREADS]


def measure(python: str, sampler: Sampler, seconds: float) -> Iterator[Point]:
    """Run each size for so long. Raises RuntimeError where the program ends before."""
    command = [python, str(PROGRAMS / "square.py")]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": sampler.uuid}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as program:
        assert program.stdin is not None and program.stdout is not None
        for blocks, threads in sizes(_said(program.stdout)["sms"]):
            program.stdin.write(f"{blocks} {threads} {seconds + SETTLE_S}\n")
            program.stdin.flush()
            _said(program.stdout)
            began_s = time.monotonic()
            _said(program.stdout)
            read = sampler.between(began_s + SETTLE_S, time.monotonic())
            yield Point(blocks, threads, *means(read), len(read))
        program.stdin.close()


def means(samples: Sequence[Sample]) -> Iterator[float | None]:
    for name in ("utilization", "gract", "smact", "smocc"):
        yield mean([getattr(each, name) for each in samples])


def _said(out: Any) -> dict[str, Any]:
    line = out.readline()
    if not line:
        raise RuntimeError("square.py has ended; what it said stands above")
    found: dict[str, Any] = json.loads(line)
    return found


def table(points: Sequence[Point]) -> list[str]:
    """Figure 3.1 as Markdown."""
    rows = []
    for point in points:
        figures = (point.utilization, point.gract, point.smact, point.smocc)
        cells = ("" if each is None else f"{each:.3f}" for each in figures)
        rows.append((str(point.blocks), str(point.threads), *cells))
    heads = ("blocks", "threads of a block", "utilization", "GRACT", "SMACT", "SMOCC")
    return markdown.table(heads, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="What a GPU's figures say of known kernels.")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--gpu", metavar="UUID")
    asked = parser.parse_args()
    found = torch_python.find(os.environ)
    try:
        if found.python is None:
            raise DeviceError(str(found.reason))
        with Sampler(asked.gpu) as sampler:
            points = list(measure(found.python, sampler, asked.seconds))
    except DeviceError as error:
        print(f"nothing is measured: {error}", file=sys.stderr)
        return 2
    print("\n".join(table(points)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
