"""Kill what runs an elastic job, at a random moment, and see that no sample is lost or doubled.

    python -m proofs.elastic_kills [--times 50] [--first-seed 0]

Each time: a daemon on simulated GPUs, a job that grows and shrinks under the real `radrun`, and
`kill -9` of a worker, of `radrun` with its shard server, of the daemon, or of all at once. The job
goes on by itself, by its retries, or with the next daemon; at its end the surviving model has seen
each sample exactly once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from tests.daemon.harness import DaemonHome
from tests.elastic.radrun.runs.place import PROGRAM, seen_by
from tests.paths import REPOSITORY
from tests.waiting import wait_until

SAMPLES, BATCH = 2403, 8
VICTIMS = ("worker", "radrun", "daemon", "all")


def make_home(folder: Path) -> DaemonHome:
    """A home whose jobs find this repository's `radrun`."""
    home = DaemonHome(folder, gpus="sim:4xA100-40GB", scale=20.0)
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "radrun"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m radrm.elastic.radrun "$@"\n')
    program.chmod(0o755)
    home.environment["PATH"] = f"{programs}:{home.environment['PATH']}"
    home.environment["PYTHONPATH"] = str(REPOSITORY)
    return home


def notes(home: DaemonHome, name: str) -> list[dict[str, Any]]:
    path = home.work / name
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def one(home: DaemonHome, seed: int) -> str:
    """One job and one kill. Returns what was killed. Raises `AssertionError`."""
    chance = random.Random(seed)
    victim = chance.choice(VICTIMS)
    home.start()
    home.file("train.py", PROGRAM)
    home.file("saves", "")
    job = home.submit(
        "--gpus=1-4",
        "--gpu-memory=2G",
        "--checkpoint=signal",
        "--retries=5",
        "--requeue",
        "--",
        "radrun",
        "train.py",
        str(SAMPLES),
        str(BATCH),
        "0.01",
    )
    wait_until(lambda: len(notes(home, "steps")) > 3, f"steps; {home.said()}")
    size = 1
    killed = False
    for turn in range(chance.randint(1, 3)):
        size = chance.choice([each for each in (1, 2, 3, 4) if each != size])
        # It is refused where the job does not run now, or another resize is under way.
        home.ask("resize", jobs=[str(job)], gpus=size)
        steps = len(notes(home, "steps")) + chance.randint(0, 60)
        wait_until(
            lambda steps=steps: len(notes(home, "steps")) >= steps or ended(home, job), "steps"
        )
        if not killed and (turn == 0 or chance.random() < 0.5):
            kill(home, victim, chance)
            killed = True
    document = home.wait_end(job)
    assert document["state"] == "COMPLETED", (seed, victim, document["reason"], home.said())
    begun = notes(home, "begun")
    found = seen_by(begun, notes(home, "steps"))
    assert sorted(found) == list(range(SAMPLES)), (seed, victim, len(found), len(set(found)))
    return victim


def ended(home: DaemonHome, job: int) -> bool:
    return home.job(job)["state"] in ("COMPLETED", "FAILED")


def kill(home: DaemonHome, victim: str, chance: random.Random) -> None:
    """kill -9; a daemon is started again."""
    begun = notes(home, "begun")
    workers = [note["pid"] for note in begun if psutil.pid_exists(note["pid"])]
    radruns = {note["radrun"] for note in begun if psutil.pid_exists(note["radrun"])}
    pids = []
    if victim in ("worker", "all") and workers:
        pids.append(chance.choice(workers))
    if victim in ("radrun", "all"):
        pids += radruns
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if victim in ("daemon", "all"):
        home.kill()
        home.start()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    for seed in range(options.first_seed, options.first_seed + options.times):
        folder = Path(tempfile.mkdtemp(prefix="radrm-kills-"))
        home = make_home(folder)
        try:
            print(f"seed {seed}: {one(home, seed)} was killed; every sample once", flush=True)
        finally:
            home.close()
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
