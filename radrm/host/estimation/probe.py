"""The job that measures a CUDA context, and the version of the driver that it is valid for.

It runs as the user whose Python it measures, alone on a device. Its memory in the readings is
the result.
"""

from __future__ import annotations

import os
import re
import sys

from radrm.host.estimation.tracing import TRACER

SIMULATED_DRIVER = "simulated"
SIMULATED_MIB = 524
"""A context's memory on simulated GPUs: as with CUDA 12 and lazy loading of kernels."""
NAME = "radrm-context"
LIMIT_S = 120.0
ROUNDS = 6.0
"""Rounds of readings that it lasts on simulated GPUs, at any speed of their clock."""

_VERSION = "/proc/driver/nvidia/version"
_NUMBER = re.compile(r"\s(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\s")


def command(simulated_s: float | None) -> tuple[str, ...]:
    """The job's command. `simulated_s` is the time between two rounds of readings on the clock of
    simulated GPUs; None for real GPUs."""
    if simulated_s is None:
        return ("python3", str(TRACER / "probe.py"))
    simjob = (sys.executable, "-m", "radrm.host.simulated.simjob")
    seconds = f"{ROUNDS * simulated_s:g}"
    return (*simjob, "--gpu-memory", f"{SIMULATED_MIB}M", "--seconds", seconds, "--ramp", "0")


def options(simulated_s: float | None) -> dict[str, str]:
    """The job's options for `radrm submit`: alone on a device, with the lowest priority."""
    limit_s = max(LIMIT_S, 4 * ROUNDS * (simulated_s or 0.0))
    return {
        "name": NAME,
        "gpus": "1",
        "collocation": "exclusive",
        "priority": "-1000",
        "time": f"{limit_s:.0f}s",
        "output": os.devnull,
        "comment": "measures the CUDA context for estimates; once, unless estimation.probe = false",
    }


def driver_version(path: str = _VERSION) -> str | None:
    """The NVIDIA kernel driver's version, such as `550.54.14`; None if it is unknown."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = _NUMBER.search(file.read(4096))
    except OSError:
        return None
    return found.group(1) if found else None
