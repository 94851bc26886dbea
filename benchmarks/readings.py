"""Time one round of readings through NVML, with the stand-in of its library (tests/standins/nvml).

This measures radrm's part: the calls, `pynvml`, and the work on the answers. The library answers
from a file, much faster than a driver; only a real GPU shows the time of a driver. A child
process reads, because the loader looks for the library at the start of a process. Between two
rounds it waits until the driver takes another sample of the counters, as in a daemon, where each
round has one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Row, median_ms, p95_ms
from radrm.config import ReadingsConfig
from radrm.core.records import Instant
from radrm.host.gpus.gpm import SHORTEST_S
from radrm.host.gpus.readings import open_gpus
from tests.standins.nvml_state import (
    CALLS_VARIABLE,
    H100,
    STATE_VARIABLE,
    NoCompiler,
    Nvml,
    compile_library,
)

LIMIT_MS = 20.0
PROCESSES = 4
"""Processes on each device."""


def measure(rounds: int = 60, devices: int = 8) -> list[Row]:
    """The row of this benchmark; none without a C compiler."""
    try:
        with standin(devices) as environment:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.readings", str(rounds)],
                env={**os.environ, **environment},
                cwd=Path(__file__).parents[1],
                stdout=subprocess.PIPE,
                check=True,
            )
    except NoCompiler as error:
        print(f"readings are not measured: {error}", file=sys.stderr)
        return []
    times = json.loads(done.stdout)
    what = f"a round of readings, {devices} devices"
    detail = f"p95 {p95_ms(times):.2g} ms, worst {max(times) * 1e3:.2g} ms; NVML stand-in"
    return [Row(what, median_ms(times), LIMIT_MS, "ms", detail)]


@contextmanager
def standin(devices: int) -> Iterator[dict[str, str]]:
    """The environment in which a process finds this number of busy GPUs. Raises NoCompiler."""
    with TemporaryDirectory(prefix="radrm-bench-") as folder:
        driver = Nvml(Path(folder, "state"), compile_library(Path(folder)))
        for _ in range(devices):
            gpu = driver.gpu(model=H100, utilization_gpu=60, sm_util=40)
            for number in range(PROCESSES):
                driver.process(gpu, os.getpid() + number, 2000)
        found = driver.environment
        del found[CALLS_VARIABLE]  # a file written at every call would be measured too
        yield found


def _rounds(count: int) -> list[float]:
    """The seconds of each round, with the clock a second later each time, as in the daemon."""
    assert os.environ.get(STATE_VARIABLE), "this is for `measure` to call"
    gpus = open_gpus(ReadingsConfig())
    uuids = [device.uuid for device in gpus.devices()]
    times = []
    for second in range(count):
        time.sleep(SHORTEST_S)
        began = time.perf_counter()
        readings = gpus.read(uuids, Instant(float(second), float(second)), lambda pid: (1, 1))
        times.append(time.perf_counter() - began)
        assert all(reading.error is None for reading in readings)
        # The first round of each feed has nothing to compare with.
        assert second == 0 or all(reading.smact_source == "gpm" for reading in readings)
    gpus.close()
    return times


if __name__ == "__main__":
    print(json.dumps(_rounds(int(sys.argv[1]))))
