"""CPUs and host memory through a real daemon: booked, shown, and waited for."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome, simjob

pytestmark = pytest.mark.daemon

BOOKED = "3 of 4 CPUs and 2.0G of 8.0G host memory booked"


def test_a_job_waits_for_cpus_that_another_has_booked(home: DaemonHome) -> None:
    home.settings = ["node.cpus=4", "node.memory=8G"]
    home.start()
    first = home.submit("--cpus=3", "--memory=2G", "--gpu-memory=1G", "--", *simjob(1, 0.1, 9999))
    home.wait_state(first, "RUNNING")
    second = home.submit("--cpus=1.5", "--gpu-memory=1G", "--", *simjob(1, 0.1, 5))
    third = home.submit("--memory=7G", "--gpu-memory=1G", "--", *simjob(1, 0.1, 5))
    assert home.job(second)["reason"] == f"Needs 1.5 CPUs, 1 free (job {first} books 3)."
    explained = home.radrm("explain", str(second)).stdout
    assert "Needs 1.5 CPUs, 1 free (" in explained
    (gpu, _) = home.json("gpus")
    numbers = {key: value for key, value in gpu.items() if key.startswith("node_")}
    assert numbers == {
        "node_cpus": 4.0,
        "node_cpus_booked": 3.0,
        "node_cpus_free": 1.0,
        "node_memory_mib": 8192,
        "node_memory_booked_mib": 2048,
        "node_memory_free_mib": 6144,
    }
    assert BOOKED in home.radrm("gpus").stdout
    home.kill()
    home.start()
    assert BOOKED in home.ask("ping")["summary"], "a restart books the same"
    assert home.job(second)["reason"] == f"Needs 1.5 CPUs, 1 free (job {first} books 3)."
    home.radrm("cancel", str(first))
    home.wait_state(second, "COMPLETED")
    home.wait_state(third, "COMPLETED")
    never = home.radrm("submit", "--cpus=5", "--", "true")
    assert never.returncode == 1
    assert "it can never run: needs 5 CPUs, the server has 4" in never.stderr
