"""Jobs that save their work, on simulated GPUs: how far they are, and what they have saved."""

from __future__ import annotations

import json
import os
from pathlib import Path

from radrm.host.storage.paths import paths_for
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

LONG_S = 5000


def trainer(*words: str, seconds: int = LONG_S) -> list[str]:
    command = ["radrm-simjob", "--gpu-memory", "4G", "--smact", "0.3", "--ramp", "1"]
    return ["--", *command, "--seconds", str(seconds), "--loss-k", "3", *words]


def begin(home: DaemonHome, kind: str, *words: str, seconds: int = LONG_S) -> int:
    """Submit a job that saves, and wait until it is at work: it handles the signal then."""
    job = home.submit(f"--checkpoint={kind}", *trainer(*words, seconds=seconds))
    wait_until(lambda: at_work(home, job), f"job {job} to be at work: {home.job(job)}")
    return job


def at_work(home: DaemonHome, job: int, attempt: int = 1) -> bool:
    log = log_of(home, job, attempt)
    return log.exists() and "epoch" in log.read_text()


def log_of(home: DaemonHome, job: int, attempt: int = 1) -> Path:
    suffix = "out" if attempt == 1 else f"attempt{attempt}.out"
    return home.work / f"radrm-{job}.{suffix}"


def begun_from(home: DaemonHome, job: int, attempt: int) -> float:
    """The step from which an attempt that is at work has gone on."""
    line = log_of(home, job, attempt).read_text().split("s  speed")[0]
    return float(line.split()[3].split("/")[0])


def saved_file(home: DaemonHome, job: int) -> Path:
    return Path(paths_for(home.environment, os.getuid()).checkpoints, str(job), "saved.json")


def saved_step(home: DaemonHome, job: int) -> float:
    step: float = json.loads(saved_file(home, job).read_text())["step"]
    return step
