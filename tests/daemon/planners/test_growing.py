"""SpeCon acts through a real daemon, on jobs that report their loss."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

LONG_S = 200_000


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    home.settings, home.scale = ["progress.interval_s=1"], 50.0
    return home


def trainer(home: DaemonHome, loss_k: float, *words: str, smact: float = 0.2) -> int:
    """Submit a job whose loss falls as exp(-loss_k * part of its work)."""
    command = ["radrm-simjob", "--gpu-memory", "2G", "--smact", str(smact), "--ramp", "1"]
    work = ["--seconds", str(LONG_S), "--loss-k", str(loss_k)]
    saves = ["--saves"] if words else []
    return home.submit("--gpu-memory=4G", *words, "--", *command, *work, *saves)


def remarks(home: DaemonHome, job: int) -> list[str]:
    found: list[str] = home.job(job)["remarks"]
    return found


@pytest.mark.nightly
def test_specon_moves_a_converged_job_once_and_its_work_goes_on(home: DaemonHome) -> None:
    home.settings += ['planner=["auto", "specon"]', "planners.specon.alpha=0.02"]
    home.settings += ["planners.specon.min_gain=1", 'policy="magm"', "policies.sharing.max_smact=1"]
    home.start()
    assert home.radrm("drain", "1").returncode == 0
    # Two of them leave the half of a GPU that a third needs under time-slicing.
    words = ("--checkpoint=signal", "--smact=0.2")
    growing = [trainer(home, 1, *words) for _ in range(2)]
    converged = trainer(home, 20_000, *words)
    wait_until(lambda: remarks(home, converged) == ["specon: converged"], "the one to converge")
    before = home.job(converged)
    assert before["moves"] == 0
    assert all(home.job(job)["devices"] == before["devices"] for job in growing)
    assert home.radrm("resume", "1").returncode == 0
    wait_until(lambda: home.job(converged)["moves"] == 1, "the move")
    moved = home.wait_state(converged, "RUNNING")
    assert moved["attempts"] == 2 and moved["devices"] != before["devices"]
    assert moved["saved_work_done"] >= before["progress"]["work_done"]
    log = home.work / f"radrm-{converged}.attempt2.out"
    wait_until(lambda: log.exists() and "epoch" in log.read_text(), "it to be at work")
    step = float(log.read_text().split("s  speed")[0].split()[3].split("/")[0])
    assert step / LONG_S >= moved["saved_work_done"] - 1e-6, "it goes on from what is saved"
    wait_until(lambda: home.job(converged)["progress"]["step"] > step + 200, "reports from there")
    found = home.job(converged)
    assert (found["moves"], found["attempts"]) == (1, 2) and found["devices"] == moved["devices"]
    assert found["remarks"] == ["specon: converged"]
    assert [home.job(job)["moves"] for job in growing] == [0, 0]
    assert [gpu["reserved_mib"] > 0 for gpu in home.ask("gpus")] == [True, True]
