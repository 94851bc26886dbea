"""The daemon on a server with NVIDIA GPUs, as far as NVML goes.

`pynvml` is the real one; under it is the stand-in of libnvidia-ml.so.1, and jobs write
into its state what they hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.daemon.harness import DaemonHome, wait_until
from tests.standins.nvml_library import Nvml

pytestmark = pytest.mark.daemon

FIRST, SECOND = (f"GPU-{n}{n}{n}{n}{n}{n}{n}{n}-0000-0000-0000-000000000000" for n in (1, 2))
LOST = 15

# Holds memory on its GPU as long as it lives, and waits.
JOB = """\
#!/bin/bash
echo "process $CUDA_VISIBLE_DEVICES $$ $1" >> $STAND_IN_NVML_STATE
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


def gpu(server: DaemonHome, uuid: str) -> dict[str, Any]:
    (found,) = (g for g in server.ask("gpus") if g["uuid"] == uuid)
    return dict(found)


def let_go(server: DaemonHome) -> None:
    (server.work / "go").touch()


# ------------------------------------------------------------------ every day


def test_it_starts_reads_and_places(server: DaemonHome) -> None:
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
    third = hold(server, 1000)
    assert "coarse" in server.job(third)["reason"], "and says so"
    let_go(server)
    assert [server.wait_end(j)["peak_mib"] for j in jobs] == [8000, 9000]
    assert server.wait_end(third)["state"] == "COMPLETED"


def test_coarse_utilization_lets_jobs_share_where_the_site_says_so(server: DaemonHome) -> None:
    server.settings = ["core.use_coarse_smact=true", "core.smact_min_samples=1"]
    server.start()
    jobs = [hold(server, 8000) for _ in range(3)]
    wait_until(lambda: all(server.job(j)["state"] == "RUNNING" for j in jobs))
    let_go(server)


def test_strangers_count(server: DaemonHome, nvml_driver: Nvml) -> None:
    nvml_driver.process(FIRST, 1, 20000)
    server.start()
    assert [g["unmanaged_mib"] for g in server.ask("gpus")] == [20000, 0]
    job = hold(server, 30000)
    assert server.wait_state(job, "RUNNING")["devices"] == [SECOND]
    let_go(server)


def test_an_old_driver_will_do(
    server: DaemonHome, nvml_driver: Nvml, old_nvml_library: Path
) -> None:
    server.environment["LD_LIBRARY_PATH"] = str(old_nvml_library.parent)
    nvml_driver.set(FIRST, memory_reserved_mib=200)
    nvml_driver.gone(SECOND)
    server.start()
    (only,) = server.ask("gpus")
    assert only["free_mib"] == 40960 - 200, "the reserve counts as used"
    job = hold(server, 8000)
    wait_until(lambda: server.job(job)["peak_mib"])
    let_go(server)
    assert server.wait_end(job)["peak_mib"] == 8000


def test_a_job_gets_a_mig_instance(server: DaemonHome, nvml_driver: Nvml) -> None:
    parts = [nvml_driver.mig(SECOND, "3g.20gb") for _ in range(2)]
    server.start()
    assert [g["uuid"] for g in server.ask("gpus")] == [FIRST, *parts]
    job = server.submit("--mig-profile=3g.20gb", "--", "bash", "hold.sh", "5000")
    wait_until(lambda: server.job(job)["peak_mib"])
    (device,) = server.job(job)["devices"]
    assert device in parts
    let_go(server)
    assert server.wait_end(job)["peak_mib"] == 5000


# ------------------------------------------------------------------ trouble


def hang_at(driver: Nvml, function: str) -> None:
    """Make a function hang, and wait until it has been called."""
    driver.hang(function)
    before = len(driver.calls(function))
    wait_until(lambda: len(driver.calls(function)) > before, f"a call of {function}")


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


def test_a_gpu_lost_while_its_job_runs(server: DaemonHome, nvml_driver: Nvml) -> None:
    server.start()
    job = hold(server, 8000)
    device = server.wait_state(job, "RUNNING")["devices"][0]
    nvml_driver.fail("*", LOST, device)
    wait_until(lambda: gpu(server, device)["state"] == "unreadable", "its reading to say so")
    assert "lost" in gpu(server, device)["reason"]
    assert server.job(job)["state"] == "RUNNING", "nobody knows that it is harmed"
    other = hold(server, 8000)
    assert device not in server.wait_state(other, "RUNNING")["devices"]
    nvml_driver.fail("*", 0, device)
    wait_until(lambda: gpu(server, device)["state"] == "busy")
    let_go(server)
    assert server.wait_end(job)["state"] == "COMPLETED"


def test_a_driver_that_hangs_holds_new_jobs_and_nothing_else(
    server: DaemonHome, nvml_driver: Nvml
) -> None:
    server.start()
    running = [hold(server, 8000), hold(server, 8000)]
    wait_until(lambda: all(server.job(j)["peak_mib"] for j in running))
    waiting = hold(server, 9000)
    hang_at(nvml_driver, "nvmlDeviceGetMemoryInfo_v2")
    server.radrm("cancel", str(running[0]))
    assert server.wait_end(running[0])["state"] == "CANCELLED", "it answers, and ends jobs"
    assert server.job(waiting)["state"] == "PENDING", "nobody knows what is free now"
    nvml_driver.release("nvmlDeviceGetMemoryInfo_v2")
    server.wait_state(waiting, "RUNNING")
    let_go(server)


def test_it_stops_while_the_driver_hangs(server: DaemonHome, nvml_driver: Nvml) -> None:
    server.start()
    hang_at(nvml_driver, "nvmlDeviceGetMemoryInfo_v2")
    assert server.stop() == 0
    server.served = False


def test_without_a_driver_it_says_so(server: DaemonHome, nvml_driver: Nvml) -> None:
    nvml_driver.fail("nvmlInit*", 9)
    done = server.radrm("daemon")
    assert done.returncode != 0
    assert "not loaded" in done.stderr
    assert "Traceback" not in done.stderr
