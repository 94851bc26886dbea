"""Submit a thousand job files in one `radrm submit`, beside a thousand plain synced files.

Both sync every file and then the folder, which is the least cost of an acknowledgement.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from benchmarks.real import fresh_home
from benchmarks.table import Row
from tests.daemon.harness import DaemonHome

LIMIT_S = 2.0
LIMIT = 5.0


def measure(jobs: int = 1000, rounds: int = 3) -> list[Row]:
    with fresh_home() as home:
        for number in range(jobs):
            home.file(f"{number}.rad", f"#!/bin/sh\n#RAD --gpus=1 --gpu-memory=8G\necho {number}\n")
        pairs = [(_bare_files(home.folder / str(i), jobs), _submit(home)) for i in range(rounds)]
    bare, ours = (median(seconds) for seconds in zip(*pairs, strict=True))
    what = f"{jobs:,} files in one submit"
    return [
        Row(f"{what}, acknowledged", ours, LIMIT_S, "s"),
        Row("the same beside bare synced files", ours / bare, LIMIT, "x", f"those: {bare:.2f} s"),
    ]


def _submit(home: DaemonHome) -> float:
    files = sorted(path.name for path in home.work.glob("*.rad"))
    began = time.perf_counter()
    done = home.radrm("submit", "--parsable", *files)
    taken = time.perf_counter() - began
    if done.stdout.count("\n") != len(files):
        raise AssertionError(f"not all were acknowledged: {done.stderr[:200]}")
    return taken


def _bare_files(folder: Path, count: int) -> float:
    began = time.perf_counter()
    folder.mkdir()
    for number in range(count):
        with open(folder / f".{number}", "wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        os.rename(folder / f".{number}", folder / f"{number}")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(handle)
    os.close(handle)
    return time.perf_counter() - began
