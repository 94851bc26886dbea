"""`radrm trace run` with real daemons on simulated GPUs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import PATIENCE_S, wait_until

HEAD = "submit_s,name,gpus,duration_s,memory_mib,smact\n"


@pytest.mark.nightly
def test_a_trace_through_a_private_daemon(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEAD + "0,one,1,400,9000,0.3\n100,two,2,600,9000,0.3\n")
    home = DaemonHome(tmp_path / "caller", scale=1.0)
    words = ("trace", "run", str(tmp_path / "t.csv"), "--gpus=sim:2xA100-40GB")
    found = home.json(*words, "--time-scale=400", "--policy=magm")
    (run,) = found["runs"]
    live, simulated = run["live"], run["simulated"]
    assert (live["jobs"], live["unfinished"], live["oom_count"]) == (2, 0, 0)
    assert (simulated["policy"], simulated["estimator"]) == ("magm", "oracle")
    # The clock is fast, so that starting a process takes some minutes of it.
    assert live["makespan_s"] >= simulated["makespan_s"] - 1
    assert live["mean_exec_s"] >= simulated["mean_exec_s"] - 1
    assert 0 < live["gpu_smact_mean"] < 0.5 and live["energy_j"] > 0
    assert not (home.folder / "home").exists(), "nothing was done in the caller's own place"


def test_ctrl_c_cancels_the_jobs_of_the_trace_only(daemon: DaemonHome, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEAD + "0,one,1,90000,9000,0.3\n0,two,1,90000,9000,0.3\n"
                                    "1000000,late,1,90000,9000,0.3\n")  # fmt: skip
    other = daemon.submit("--gpus=0", "--name=other", "--", "sleep", "1000")
    process = subprocess.Popen(
        [sys.executable, "-m", "radrm.cli.main", "trace", "run", str(tmp_path / "t.csv")],
        cwd=tmp_path,
        env=daemon.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(daemon.ask("status", state="RUNNING")) == 3, "the jobs to run")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGINT and output == ""
    assert "stopped; 2 jobs of the trace are cancelled" in errors
    wait_until(lambda: len(daemon.ask("status")) == 1, "the jobs to end")
    assert daemon.job(other)["state"] == "RUNNING"
