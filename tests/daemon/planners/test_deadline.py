"""Jobs give way by their due times in a real daemon, on simulated GPUs."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome
from tests.daemon.trainers import at_work, saved_step, trainer
from tests.waiting import wait_until


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    home.gpus, home.scale = "sim:1xA100-40GB", 50.0
    home.settings = ["policy=exclusive", "planner=deadline", "core.smact_warm_s=0"]
    home.settings += ["planners.deadline.min_run_s=10", "checkpoint.patience_s=60"]
    return home


def train(home: DaemonHome, seconds: int, *words: str) -> int:
    command = trainer("--saves", seconds=seconds)
    return home.submit("--gpu-memory=8G", f"--duration={seconds}", *words, *command)


def begin(home: DaemonHome) -> int:
    """Submit a job that saves, and wait until it is at work: it handles the signal then."""
    job = train(home, 20_000, "--checkpoint=signal")
    wait_until(lambda: at_work(home, job), f"job {job} to be at work")
    return job


def test_a_job_saves_and_gives_way_and_goes_on_from_there(home: DaemonHome) -> None:
    home.start()
    long = begin(home)
    urgent = train(home, 100, "--due=+1m", "--weight=20")
    assert home.wait_end(urgent)["state"] == "COMPLETED"
    wait_until(lambda: home.job(long)["attempts"] == 2, "the first job to go on")
    assert saved_step(home, long) > 0


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
