"""Memory caps by the driver, with a whole daemon: set before the job begins, raised, adopted.

Control groups are the kernel's; the driver is the stand-in of libnvidia-ml.so.1.
"""

from __future__ import annotations

import os

import pytest

from radrm.host.processes import cgroups
from tests.daemon.harness import DaemonHome
from tests.standins.nvml_library import A100, Nvml
from tests.waiting import wait_text, wait_until

pytestmark = pytest.mark.daemon

GIB = 1024
GPU = "GPU-11111111-0000-0000-0000-000000000000"
JOB = """\
#!/bin/bash
grep "^limit $CUDA_VISIBLE_DEVICES " $STAND_IN_NVML_STATE | tail -1 > first
cp /proc/self/cgroup group
until [ -e grows ]; do sleep 0.05; done
echo "process $CUDA_VISIBLE_DEVICES $$ 9500" >> $STAND_IN_NVML_STATE
until [ -e go ]; do sleep 0.05; done
"""


@pytest.fixture
def server(home: DaemonHome, nvml_driver: Nvml) -> DaemonHome:
    trial = cgroups.place(f"radrm-test-{os.getpid()}")
    if os.geteuid() != 0 or trial is None or not cgroups.make(trial):
        pytest.skip("no root, or no control group of version 2")
    cgroups.remove(trial)
    nvml_driver.gpu(GPU, {**A100, "memory_limits": 1})
    home.gpus = None
    home.environment |= nvml_driver.environment
    home.file("job.sh", JOB)
    return home


def limit_mib(nvml: Nvml, group: str) -> float:
    """The limit of a job's group that the driver knows, 0 without one."""
    lines = [line.split() for line in nvml.state.read_text().splitlines()]
    found = [line for line in lines if line[0] == "limit" and line[-1].endswith(group)]
    return float(found[-1][3]) / (1 << 20) if found else 0


def group_of(server: DaemonHome) -> str:
    """The name of a job's group, once it runs."""
    return wait_text(server.work / "group").rpartition("/")[2].strip()


def test_a_cap_is_there_before_the_job_and_grows_with_it_also_after_a_kill(
    server: DaemonHome, nvml_driver: Nvml
) -> None:
    nvml_driver.process(GPU, 4242, 30 * GIB)
    server.settings = ["policy=magm", "core.smact_warm_s=0"]
    server.start()
    assert server.ask("gpus")[0]["caps"] == ["driver"]
    job = server.submit("--gpu-memory=5G:30G", "--", "bash", "job.sh")
    group = group_of(server)
    # The GPU has 40360 MiB for jobs. Others use 30 GiB of it.
    first = 40360 - 30 * GIB
    assert (server.work / "first").read_text().split()[3] == str(first << 20)
    found = server.job(job)
    assert (found["cap_mib"], found["cap_by"], found["cap_refused"]) == (first, "driver", None)
    assert "memory cap: 9.4G per GPU" in server.radrm("explain", str(job)).stdout
    server.kill()
    nvml_driver.exit(GPU, 4242)
    (server.work / "grows").touch()
    server.start()
    wait_until(lambda: limit_mib(nvml_driver, group) == 2 * first)
    wait_until(lambda: server.job(job)["cap_mib"] == 2 * first)
    (server.work / "go").touch()
    assert server.wait_end(job)["state"] == "COMPLETED"
    wait_until(lambda: not os.path.exists(str(cgroups.place(group))))


def test_a_driver_that_refuses_later_is_told_and_the_job_runs(
    server: DaemonHome, nvml_driver: Nvml
) -> None:
    server.start()
    nvml_driver.fail("nvmlDeviceSetMemoryLimits_v1", 4)
    (server.work / "go").touch()
    job = server.submit("--gpu-memory=5G", "--", "bash", "job.sh")
    found = wait_until(lambda: (j := server.job(job))["cap_refused"] and j)
    assert (found["cap_refused"], found["cap_mib"]) == ("only root may set a limit", None)
    (server.work / "grows").touch()
    assert server.wait_end(job)["state"] == "COMPLETED"
