"""The benchmarks run and say what they measured. How fast is not asked here."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    bulk,
    commands,
    idle,
    launch,
    long_queue,
    readings,
    reports,
    run,
    saving,
)
from benchmarks.checkpoint import measure as saves
from benchmarks.deadlines import calls
from benchmarks.flowcon import steering
from benchmarks.past import overview, scale
from benchmarks.retention import sweep
from benchmarks.serving import pages, redraw, scrapes
from benchmarks.simulation import simulator, users
from benchmarks.specon import runs
from benchmarks.table import Row
from tests.paths import REPOSITORY

SMALL: dict[str, Callable[[], list[Row]]] = {
    "commands": lambda: commands.measure(runs=1),
    "launch": lambda: launch.measure(jobs=2),
    "bulk": lambda: bulk.measure(jobs=3, rounds=1),
    "long_queue": lambda: long_queue.measure(jobs=5, decisions=2),
    "pages": lambda: pages.measure(jobs=50, connections=2, starts=2),
    "idle": lambda: idle.measure(seconds=0.1, devices=1),
    "simulator": lambda: simulator.measure(tries=1, counts=(5, 10)),
    "saving": lambda: saving.measure(seconds=2),
    "steering": lambda: steering.measure(jobs=3, runs=2),
    "reports": lambda: reports.measure(count=5),
    "readings": lambda: readings.measure(rounds=3, devices=2),
    "runs": lambda: runs.measure(rounds=3),
    "calls": lambda: calls.measure(rounds=1),
    "sweep": lambda: sweep.measure(count=300),
    "redraw": lambda: redraw.measure(jobs=30, pictures=1),
    "scrapes": lambda: scrapes.measure(20, 1, 1, seconds=0.05, fresh_s=0.0, every_look=False),
    "overview": lambda: overview.measure(count=20),
}

SLOW = ("commands", "idle", "launch", "long_queue", "pages", "readings", "scrapes", "simulator")
"""These start daemons and more, each for a second or longer: at night."""


@pytest.mark.nightly
def test_a_long_past_is_measured() -> None:
    assert {row.unit for row in scale.measure(count=20)} == {"MiB", "s"}


def test_all_are_run() -> None:
    assert {module.__name__.rpartition(".")[2] for module in run.BENCHMARKS} == SMALL.keys()


@pytest.mark.daemon
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] if name in SLOW else []) for name in SMALL],
)
def test_a_benchmark_measures(name: str) -> None:
    rows = SMALL[name]()
    if name == "readings" and shutil.which("cc") is None:
        assert rows == []
        pytest.skip("no C compiler (cc) to build the stand-in of libnvidia-ml.so.1 with")
    assert rows
    for row in rows:
        assert row.what and row.unit
        assert math.isfinite(row.measured) and row.measured >= 0 and row.limit > 0


def test_each_way_of_several_users_has_a_line() -> None:
    head, *lines = users.measure(seeds=1, users=2, count=4)
    assert "mean completion" in head
    assert [line.split("  ")[0] for line in lines] == [way.what for way in users.WAYS]


FORKING = """
import json, os, sys, time, traceback
from torch import _dynamo  # the optimizer's import takes as long as PyTorch's
from benchmarks.checkpoint import train

for line in sys.stdin:
    folder, *words = json.loads(line)
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.environ["RADRM_CHECKPOINT_DIR"] = folder
        sys.stdout = open(os.path.join(folder, "said"), "w")
        try:
            train.main(*words)
            sys.stdout.flush()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    code = os.waitpid(pid, 0)[1]
    print(json.dumps([code, start]), flush=True)
"""
"""Runs trainings, each in a process of its own, and imports PyTorch once."""


@pytest.mark.nightly
@pytest.mark.daemon
def test_a_resumed_training_ends_like_an_uninterrupted_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if saves.why_not() is not None:
        pytest.skip("PyTorch is not installed")
    forking = subprocess.Popen(
        [sys.executable, "-c", FORKING],
        cwd=REPOSITORY,
        env={**os.environ, "RADRM_JOB_ID": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert forking.stdin is not None and forking.stdout is not None

    def run(folder: Path, *words: Any) -> dict[str, float]:
        print(json.dumps([str(folder), *words]), file=forking.stdin, flush=True)
        code, start = json.loads(forking.stdout.readline())
        assert code == 0
        return {"start": start, **json.loads((folder / "said").read_text())}

    monkeypatch.setattr(saves, "run", run)
    monkeypatch.setattr(saves, "POINTS", (0.7,))
    with forking:
        found = saves.measure("cnn", runs=1, steps=10)
        forking.stdin.close()
    assert [costs.point for costs in found] == list(saves.POINTS)
    assert all(costs.size > 0 and min(costs.save_s + costs.resume_s) > 0 for costs in found)
    assert "1 runs each" in saves.section(found, 1, [1.0]).replace("\n", " ")
    assert any("| cnn | 70% |" in line for line in saves.table(found))


def test_a_resumed_training_with_another_loss_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(folder: Path, model: str, steps: int, save_at: int) -> dict[str, float]:
        begun = (folder / "saved.json").exists()
        (folder / "saved.json").write_text(f'{{"step": {save_at}}}')
        times = {"start": 1.0, "first_step": 2.0, "save_s": 0.1, "bytes": 8}
        return {"step": save_at, "loss": 0.5 if begun else 0.4, **times}

    monkeypatch.setattr(saves, "run", run)
    with pytest.raises(RuntimeError, match=r"^cnn: ends with loss 0.5, not 0.4$"):
        saves.measure("cnn", runs=1)
