"""Time everyday commands beside `python -c pass`: the same interpreter, in turns.

Their output goes into a pipe. With a daemon, `submit` includes the question for the job's id.
All devices are taken, so that no job starts in between.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.real import fresh_home, occupy, running_daemon, submit
from benchmarks.table import Row, median_ms
from tests.daemon.harness import DaemonHome

LIMIT = 4.0
LIMITS = {
    "--version": 2.0,
    **dict.fromkeys(("status", "logs", "gpus"), 2.5),
    "explain": 3.0,
    **dict.fromkeys(("doctor", "config", "estimate"), 12.0),
}
"""Multiples of `python -c pass` by the first word of a command; `LIMIT` for others."""
PAGE = 50

_JOB = """#!/usr/bin/env bash
#RAD --name=resnet50 --gpus=1
#RAD --gpu-memory=8G --time=4:00:00
python train.py --batch-size 32
"""


def measure(runs: int = 40) -> list[Row]:
    with fresh_home() as home:
        job = str(home.file("job.rad", _JOB))
        alone = {
            "--version": ["--version"],
            "--help": ["--help"],
            "submit, no daemon": ["submit", job],
        }
        rows = _rows(alone, home, runs)
    with running_daemon() as home:
        occupy(home)
        job = str(home.file("job.rad", _JOB))
        tickets, _ = submit(home, ("true",), PAGE)
        home.ask("intake", jobs=tickets)
        served = {
            f"status, {PAGE} jobs": ["status"],
            "status JOB": ["status", "1"],
            "gpus": ["gpus"],
            "logs": ["logs", "1"],
            "explain": ["explain", str(PAGE)],
            "doctor": ["doctor"],
            "config show": ["config", "show"],
            "estimate": ["estimate", job],
            "submit, daemon up": ["submit", job],
        }
        rows += _rows(served, home, runs)
    return rows


def _rows(commands: dict[str, list[str]], home: DaemonHome, runs: int) -> list[Row]:
    """One row per command. All take turns with Python alone, so that noise affects all alike."""
    radrm = Path(sys.executable).with_name("radrm")
    start = [str(radrm)] if radrm.exists() else [sys.executable, "-m", "radrm.cli.main"]
    lines = {what: [*start, *words] for what, words in commands.items()}
    bare = [sys.executable, "-c", "pass"]
    for line in (bare, *lines.values()):
        _run(home, line)  # the first of each warms up
    took: dict[str, list[float]] = {what: [] for what in lines}
    python: list[float] = []
    for _ in range(runs):
        python.append(_run(home, bare))
        for what, line in lines.items():
            took[what].append(_run(home, line))
    return [
        Row(
            *(what, median(seconds) / median(python)),
            *(LIMITS.get(what.split()[0].rstrip(","), LIMIT), "x python"),
            f"{median_ms(seconds):.0f} ms beside {median_ms(python):.0f} ms",
        )
        for what, seconds in took.items()
    ]


def _run(home: DaemonHome, command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        command,
        env=home.environment,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return time.perf_counter() - began
