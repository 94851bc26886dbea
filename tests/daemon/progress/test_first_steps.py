"""Jobs of unknown need on few GPUs: the first steps of each make room for the next."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome
from tests.standins.pytorch import OPTIMIZER
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

TRAIN = """
import subprocess, sys, torch
words = ["radrm-simjob", "--gpu-memory", "16G", "--smact", "0.2", "--seconds", "2000"]
words += ["--ramp", "20", "--print-every", "40"]
with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as training:
    training.stdout.readline()
    optimizer = sys.modules["torch.optim.optimizer"].Optimizer()
    for _ in range(10):
        optimizer.step()
    training.stdout.read()
sys.exit(training.returncode)
"""


def test_six_share_two_gpus_without_a_death(home: DaemonHome) -> None:
    torch = home.work / "torch"
    (torch / "optim").mkdir(parents=True)
    (torch / "compiler.py").write_text("def is_compiling(): return False\n")
    (torch / "distributed.py").write_text("def is_available(): return False\n")
    (torch / "optim" / "__init__.py").write_text("")
    (torch / "optim" / "optimizer.py").write_text(OPTIMIZER)
    (torch / "__init__.py").write_text(
        "import torch.compiler, torch.distributed, torch.optim.optimizer\n"
    )
    home.file("train.py", TRAIN)
    # Only its steps settle a job here.
    home.settings = ["core.settle_s=1e6", "core.smact_warm_s=0"]
    home.fixed = ["core.idle_trial_s=1e6"]
    home.start()
    words = ("--no-trace", "--", "python", "train.py")
    jobs = [home.submit(*words) for _ in range(6)]

    def running() -> list[int]:
        return [job for job in jobs if home.job(job)["state"] == "RUNNING"]

    wait_until(lambda: len(running()) >= 3, "two jobs on one GPU")
    last = home.job(jobs[-1])
    assert last["state"] == "PENDING" and last["reason"]
    ended = [home.wait_end(job) for job in jobs]
    assert [job["state"] for job in ended] == ["COMPLETED"] * 6, ended
    assert [(job["attempts"], job["oom_count"]) for job in ended] == [(1, 0)] * 6
