"""A daemon with nothing to do: what it takes of one core, its reading of devices included."""

from __future__ import annotations

import time

import psutil

from benchmarks.real import running_daemon
from benchmarks.table import Row

LIMIT_PERCENT = 0.5


def measure(seconds: float = 10.0, devices: int = 8) -> list[Row]:
    with running_daemon(devices) as home:
        assert home.process is not None
        daemon = psutil.Process(home.process.pid)
        before = daemon.cpu_times()
        time.sleep(seconds)
        after = daemon.cpu_times()
    used = after.user + after.system - before.user - before.system
    what = f"idle daemon, {devices} devices"
    return [
        Row(
            what,
            100 * max(0.0, used) / seconds,
            LIMIT_PERCENT,
            "% of a core",
            f"over {seconds:g} s",
        )
    ]
