"""The share of one core that a daemon without jobs uses, readings of its devices included.

Once with simulated GPUs, whose driver answers through a socket, and once with GPUs that are read
through NVML (with the stand-in of its library).
"""

from __future__ import annotations

import sys
import time

from benchmarks.readings import standin
from benchmarks.real import daemon_cpu_s, fresh_home
from benchmarks.table import Row
from tests.daemon.harness import DaemonHome
from tests.standins.nvml_state import NoCompiler

LIMIT_PERCENT = 0.5
LIMIT_NVML_PERCENT = 1.0


def measure(seconds: float = 10.0, devices: int = 8) -> list[Row]:
    with fresh_home(devices) as home:
        used = _percent(home, seconds)
    rows = [_row(f"idle daemon, {devices} devices", used, LIMIT_PERCENT, seconds)]
    try:
        with standin(devices) as environment, fresh_home(devices) as home:
            home.gpus = None
            home.environment |= environment
            used = _percent(home, seconds)
    except NoCompiler as error:
        print(f"an idle daemon over NVML is not measured: {error}", file=sys.stderr)
        return rows
    what = f"idle daemon, {devices} devices by NVML"
    return [*rows, _row(what, used, LIMIT_NVML_PERCENT, seconds)]


def _percent(home: DaemonHome, seconds: float) -> float:
    home.start()
    before_s = daemon_cpu_s(home)
    time.sleep(seconds)
    return 100 * max(0.0, daemon_cpu_s(home) - before_s) / seconds


def _row(what: str, percent: float, limit: float, seconds: float) -> Row:
    return Row(what, percent, limit, "% of a core", f"over {seconds:g} s")
