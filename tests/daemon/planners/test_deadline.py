"""Jobs give way by their due times in a real daemon, on simulated GPUs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.storage.paths import paths_for
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    found = DaemonHome(tmp_path, scale=50.0)
    found.gpus = "sim:1xA100-40GB"
    found.settings = ["policy=exclusive", "planner=deadline", "core.smact_warm_s=0"]
    found.settings += ["planners.deadline.min_run_s=10", "checkpoint.patience_s=60"]
    yield found
    found.close()


def train(home: DaemonHome, seconds: int, *words: str) -> int:
    command = ["radrm-simjob", "--gpu-memory", "4G", "--smact", "0.3", "--ramp", "1"]
    command += ["--seconds", str(seconds), "--loss-k", "3", "--saves"]
    return home.submit("--gpu-memory=8G", f"--duration={seconds}", *words, "--", *command)


def log_of(home: DaemonHome, job: int) -> str:
    log = home.work / f"radrm-{job}.out"
    return log.read_text() if log.exists() else ""


def begin(home: DaemonHome) -> int:
    """Submit a job that saves, and wait until it is at work: it handles the signal then."""
    job = train(home, 20_000, "--checkpoint=signal")
    wait_until(lambda: "epoch" in log_of(home, job), f"job {job} to be at work")
    return job


def test_a_job_saves_and_gives_way_and_goes_on_from_there(home: DaemonHome) -> None:
    home.start()
    long = begin(home)
    urgent = train(home, 100, "--due=+1m", "--weight=20")
    assert home.wait_end(urgent)["state"] == "COMPLETED"
    wait_until(lambda: home.job(long)["attempts"] == 2, "the first job to go on")
    saved = Path(paths_for(home.environment, os.getuid()).checkpoints, str(long), "saved.json")
    assert json.loads(saved.read_text())["step"] > 0


def test_a_killed_daemon_still_knows_who_was_asked(home: DaemonHome) -> None:
    home.start()
    long = begin(home)
    urgent = train(home, 100, "--due=+1m", "--weight=20")
    home.kill()
    home.start()
    assert home.wait_end(urgent)["state"] == "COMPLETED"
    wait_until(lambda: home.job(long)["attempts"] == 2, "the first job to go on")
    second = train(home, 100, "--due=+1m", "--weight=20")
    assert home.json("explain", str(second))["reasons"]
    assert home.job(second)["state"] == "PENDING"
    assert home.job(long)["attempts"] == 2, "it was stopped a short time ago"
