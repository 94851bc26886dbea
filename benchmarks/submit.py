"""`radrm submit` beside `python -c pass`: the same interpreter, in turns.

With a daemon up it includes being told the job's id. The devices are taken, so that
no other job's start stands in the way.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.real import fresh_home, occupy, running_daemon
from benchmarks.table import Row, median_ms
from tests.daemon.harness import DaemonHome

LIMIT = 4.0

_JOB = """#!/usr/bin/env bash
#RAD --name=resnet50 --gpus=1
#RAD --gpu-memory=8G --time=4:00:00
python train.py --batch-size 32
"""


def measure(runs: int = 40) -> list[Row]:
    with fresh_home() as home:
        down = _ratio("submit, no daemon", home, runs)
    with running_daemon() as home:
        occupy(home)
        up = _ratio("submit, daemon up", home, runs)
    return [down, up]


def _ratio(what: str, home: DaemonHome, runs: int) -> Row:
    job = home.file("job.rad", _JOB)
    radrm = Path(sys.executable).with_name("radrm")
    words = [str(radrm)] if radrm.exists() else [sys.executable, "-m", "radrm.cli.main"]
    nothing, submit = [sys.executable, "-c", "pass"], [*words, "submit", str(job)]
    _run(home, nothing), _run(home, submit)  # the first of each warms up
    pairs = [(_run(home, nothing), _run(home, submit)) for _ in range(runs)]
    bare, ours = (list(seconds) for seconds in zip(*pairs, strict=True))
    detail = f"{median_ms(ours):.0f} ms beside {median_ms(bare):.0f} ms"
    return Row(what, median(ours) / median(bare), LIMIT, "x python", detail)


def _run(home: DaemonHome, command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        command,
        env=home.environment,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began
