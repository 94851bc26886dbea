"""The planner `elastic` acts through a real daemon, on jobs that are resized by a restart."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

LONG_S = 100_000


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    home.settings = ["progress.interval_s=1", "planners.elastic.interval_s=20"]
    home.settings += ['planner=["strict", "elastic"]']
    return home


def trainer(home: DaemonHome, *words: str, seconds: int = LONG_S) -> int:
    """Submit a job that divides its work among its GPUs, and can save it."""
    command = ["radrm-simjob", "--gpus", "all", "--gpu-memory", "16G", "--smact", "0.9"]
    work = ["--ramp", "1", "--scaling", "0", "--seconds", str(seconds), "--loss-k", "1"]
    return home.submit("--gpu-memory=30G", *words, "--", *command, *work, "--saves")


def held(home: DaemonHome, job: int) -> int:
    found: list[str] = home.job(job)["devices"]
    return len(found)


@pytest.mark.nightly
def test_a_job_grows_gives_back_and_grows_again_also_after_a_kill(home: DaemonHome) -> None:
    home.start()
    job = trainer(home, "--gpus=1-2", "--checkpoint=signal")
    wait_until(lambda: held(home, job) == 2, "the job to grow")
    other = trainer(home, seconds=300)
    wait_until(lambda: home.job(other)["state"] == "RUNNING", "the other job to start")
    assert held(home, job) == 1
    home.kill()
    home.start()
    wait_until(lambda: home.job(other)["state"] == "COMPLETED", "the other job to end")
    wait_until(
        lambda: held(home, job) == 2 and home.job(job)["state"] == "RUNNING", "it to grow again"
    )
    found = home.job(job)
    assert (found["attempts"], found["oom_count"]) == (4, 0)
    assert found["saved_work_done"] > 0, "it goes on from what it has saved"
