"""Jobs of unknown need on few GPUs: the first steps of each make room for the next."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome
from tests.standins.pytorch import OPTIMIZER
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

TRAIN = """
import subprocess, sys, torch
words = ["radrm-simjob", "--gpu-memory", "16G", "--smact", "0.2", "--seconds", "999999"]
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

    def at_work() -> list[int]:
        """Those that run and have all their memory."""
        found = map(home.job, jobs)
        return [j["id"] for j in found if j["state"] == "RUNNING" and j["peak_mib"] == 16 * 1024]

    wait_until(lambda: len(at_work()) == 4, "two jobs on each GPU")
    last = home.job(jobs[-1])
    assert last["state"] == "PENDING" and last["reason"]
    home.radrm("cancel", *map(str, at_work()))
    wait_until(lambda: len(at_work()) == 2, "the other two")
    found = [home.job(job) for job in jobs]
    assert [(job["attempts"], job["oom_count"]) for job in found] == [(1, 0)] * 6
