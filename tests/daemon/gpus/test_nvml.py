"""The daemon on a server with NVIDIA GPUs, as far as NVML goes.

`pynvml` is the real one; under it is the stand-in of libnvidia-ml.so.1, and jobs write
into its state what they hold. Unmanaged processes, MIG, and GPUs that are lost while jobs run:
test_dgx.py; a driver that hangs: test_readings.py.
"""

from __future__ import annotations

import os

import pytest

from radrm.host.isolation import GPU_MAJOR
from radrm.host.isolation import find as find_isolation
from tests.daemon.harness import DaemonHome
from tests.standins.nvml_library import Nvml
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

FIRST, SECOND = (f"GPU-{n}{n}{n}{n}{n}{n}{n}{n}-0000-0000-0000-000000000000" for n in (1, 2))
LOST = 15

# Holds memory on its GPU as long as it lives, and waits.
JOB = """\
#!/bin/bash
echo "process $CUDA_VISIBLE_DEVICES $$ $1" >> $STAND_IN_NVML_STATE
for file in nvidia?; do (: < $file) 2>> opened.$RADRM_JOB_ID; done
until [ -e go ]; do sleep 0.05; done
"""


@pytest.fixture
def server(home: DaemonHome, nvml_driver: Nvml) -> DaemonHome:
    """Two GPUs of 40 GiB, and no daemon yet."""
    for uuid in (FIRST, SECOND):
        nvml_driver.gpu(uuid, power_mw=120_000, utilization_gpu=35)
    home.gpus = None
    home.environment |= nvml_driver.environment
    home.file("hold.sh", JOB)
    return home


def hold(server: DaemonHome, mib: int) -> int:
    return server.submit(f"--gpu-memory={mib}", "--", "bash", "hold.sh", str(mib))


def errors(server: DaemonHome, job: int) -> list[str]:
    """Why a job could not open the files nvidia0, nvidia1..."""
    lines = (server.work / f"opened.{job}").read_text().splitlines()
    return [line.rpartition(": ")[2] for line in lines]


def let_go(server: DaemonHome) -> None:
    (server.work / "go").touch()


# ------------------------------------------------------------------ every day


def test_it_starts_reads_and_places(server: DaemonHome) -> None:
    """And a job can open its own GPU alone."""
    server.settings = ["policy=magm"]
    can_isolate = find_isolation(True, os.getuid()).reason is None
    for minor in range(2) if can_isolate else ():
        os.mknod(server.work / f"nvidia{minor}", 0o20666, os.makedev(GPU_MAJOR, minor))
    server.start()
    first = server.ask("gpus")[0]
    assert (first["total_mib"], first["free_mib"]) == (40960, 40360)
    assert first["smact_source"] == "nvml-utilization"
    jobs = [hold(server, 8000), hold(server, 9000)]
    ends = wait_until(
        lambda: [j for j in map(server.job, jobs) if j["peak_mib"]][1:] and server.ask("gpus")
    )
    assert [g["jobs"] for g in ends] == [[jobs[0]], [jobs[1]]]
    assert [g["unmanaged_mib"] for g in ends] == [0, 0]
    if can_isolate:
        # No driver is here, so a GPU that a job may open is no device.
        no, missing = "Operation not permitted", "No such device or address"
        assert [errors(server, job) for job in jobs] == [[missing, no], [no, missing]]
    third = hold(server, 1000)
    assert "its SM activity is known in" in server.job(third)["reason"], "and says so"
    let_go(server)
    assert [server.wait_end(j)["peak_mib"] for j in jobs] == [8000, 9000]
    assert server.wait_end(third)["state"] == "COMPLETED"


def test_jobs_share_where_only_utilization_is_read(server: DaemonHome) -> None:
    server.settings = [
        "policy=magm",
        "core.smact_warm_s=0",
    ]
    server.fixed = ["core.smact_after_exit_s=0"]
    server.start()
    jobs = [hold(server, 8000) for _ in range(3)]
    wait_until(lambda: all(server.job(j)["state"] == "RUNNING" for j in jobs))
    let_go(server)


# ------------------------------------------------------------------ trouble


def test_a_lost_gpu_takes_no_job_and_harms_no_other(server: DaemonHome, nvml_driver: Nvml) -> None:
    nvml_driver.fail("*", LOST, FIRST)
    server.start()
    jobs = [hold(server, 8000) for _ in range(2)]
    assert server.wait_state(jobs[0], "RUNNING")["devices"] == [SECOND]
    assert server.job(jobs[1])["state"] == "PENDING"
    nvml_driver.fail("*", 0, FIRST)
    let_go(server)
    for job in jobs:
        assert server.wait_end(job)["state"] == "COMPLETED"


def test_users_and_administrators_see_that_gpus_are_lost(
    server: DaemonHome, nvml_driver: Nvml
) -> None:
    server.start()
    job = hold(server, 8000)
    assert server.wait_state(job, "RUNNING")["devices"] == [FIRST]
    nvml_driver.fail("*", LOST, FIRST)
    wait_until(lambda: "GPU 0: the GPU is lost" in (server.job(job)["reason"] or ""))
    nvml_driver.fail("*", 0, FIRST)
    nvml_driver.gone(SECOND)
    wait_until(lambda: server.ask("gpus")[1]["state"] == "vanished")
    wait_until(lambda: server.job(job)["reason"] is None, "the other to be read again")
    let_go(server)
    server.wait_end(job)


def test_a_job_that_fails_on_a_faulty_gpu_runs_again_on_another(
    server: DaemonHome, nvml_driver: Nvml
) -> None:
    server.start()
    server.file("once.sh", "until [ -e go ]; do sleep 0.05; done\n[ $RADRM_ATTEMPT = 2 ]\n")
    job = server.submit("--gpu-memory=1G", "--", "bash", "once.sh")
    assert server.wait_state(job, "RUNNING")["devices"] == [FIRST]
    nvml_driver.xid(FIRST, 79)
    wait_until(lambda: "Xid 79" in (server.job(job)["reason"] or ""))
    let_go(server)
    assert "Xid 79" in server.wait_state(job, "PENDING")["reason"]
    server.radrm("release", str(job))
    done = server.wait_end(job)
    assert (done["state"], done["devices"]) == ("COMPLETED", [SECOND])


def test_a_named_library_that_cannot_be_used_is_refused(server: DaemonHome) -> None:
    server.environment["RADRM_NVML_LIBRARY"] = "/nowhere/libnvidia-ml.so.1"
    done = server.radrm("daemon")
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert "RADRM_NVML_LIBRARY=/nowhere/libnvidia-ml.so.1: No such file" in line


def test_without_a_driver_it_says_so(server: DaemonHome, nvml_driver: Nvml) -> None:
    nvml_driver.fail("nvmlInit*", 9)
    done = server.radrm("daemon")
    assert done.returncode != 0
    assert "not loaded" in done.stderr
    assert "Traceback" not in done.stderr
