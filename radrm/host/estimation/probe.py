"""The measurement of a CUDA context: the command that does it, and the driver it is true for.

It runs as a job of the user whose Python it is, on a device of its own; what the readings see
of it is the result.
"""

from __future__ import annotations

import os
import re
import sys

from radrm.host.estimation.tracing import TRACER

SIMULATED_DRIVER = "simulated"
SIMULATED_MIB = 524
"""What a context takes on simulated GPUs: as CUDA 12 does that loads its kernels lazily."""
NAME = "radrm-context"
LIMIT_S = 120.0
ROUNDS = 6.0
"""So many rounds of readings see it on simulated GPUs, whatever their clock's speed."""

_VERSION = "/proc/driver/nvidia/version"
_NUMBER = re.compile(r"\s(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\s")


def command(simulated_s: float | None) -> tuple[str, ...]:
    """What the job runs. `simulated_s`: the GPUs are, and between two rounds of readings so many
    seconds of their clock go by."""
    if simulated_s is None:
        return ("python3", str(TRACER / "probe.py"))
    simjob = (sys.executable, "-m", "radrm.host.simulated.simjob")
    seconds = f"{ROUNDS * simulated_s:g}"
    return (*simjob, "--gpu-memory", f"{SIMULATED_MIB}M", "--seconds", seconds, "--ramp", "0")


def options(simulated_s: float | None) -> dict[str, str]:
    """As `radrm submit` would be given them: a device of its own, behind everybody's jobs."""
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
    """The NVIDIA kernel driver's version, such as `550.54.14`; None where it does not say."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = _NUMBER.search(file.read(4096))
    except OSError:
        return None
    return found.group(1) if found else None
