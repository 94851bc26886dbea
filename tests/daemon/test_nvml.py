"""The daemon on a server with NVIDIA GPUs, as far as NVML goes: `pynvml` is a stand-in.

The stand-in has two GPUs of 40 GiB; what runs on them stands in a file that jobs
write themselves: "UUID PID MIB" a line.
"""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome, wait_until

pytestmark = pytest.mark.daemon

STAND_IN = """\
import os
from types import SimpleNamespace

MIB = 1024 * 1024
UUIDS = ["GPU-11111111-0000-0000-0000-000000000000", "GPU-22222222-0000-0000-0000-000000000000"]
nvmlMemory_v2 = 0x2000028


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"error {value}")
        self.value = value


def _processes(uuid):
    with open(os.environ["STAND_IN_STATE"]) as file:
        rows = [line.split() for line in file]
    alive = [r for r in rows if r[0] == uuid and os.path.exists(f"/proc/{r[1]}")]
    return [SimpleNamespace(pid=int(r[1]), usedGpuMemory=int(r[2]) * MIB) for r in alive]


def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return len(UUIDS)
def nvmlDeviceGetHandleByIndex(index): return UUIDS[index]
def nvmlDeviceGetHandleByUUID(uuid): return uuid
def nvmlDeviceGetUUID(handle): return handle
def nvmlDeviceGetName(handle): return "NVIDIA A100-SXM4-40GB"
def nvmlDeviceGetMigMode(handle): raise NVMLError(3)
def nvmlDeviceGetPowerUsage(handle): return 120_000
def nvmlDeviceGetUtilizationRates(handle): return SimpleNamespace(gpu=35)
def nvmlDeviceGetComputeRunningProcesses_v3(handle): return _processes(handle)
def nvmlDeviceGetMPSComputeRunningProcesses_v3(handle): return []
def nvmlDeviceGetMemoryInfo(handle, version=None):
    used = sum(p.usedGpuMemory for p in _processes(handle))
    return SimpleNamespace(total=40960 * MIB, reserved=600 * MIB, used=used)
"""

# Notes what it holds on its GPU, and waits.
JOB = """\
#!/bin/bash
echo "$CUDA_VISIBLE_DEVICES $$ $1" >> $STAND_IN_STATE
until [ -e go ]; do sleep 0.05; done
"""


@pytest.fixture
def server(home: DaemonHome) -> DaemonHome:
    home.gpus = None
    fake = home.folder / "fake"
    fake.mkdir()
    (fake / "pynvml.py").write_text(STAND_IN)
    (home.folder / "state").touch()
    home.environment["STAND_IN_STATE"] = str(home.folder / "state")
    home.environment["PYTHONPATH"] = f"{fake}:{home.environment['PYTHONPATH']}"
    home.file("hold.sh", JOB)
    return home


def hold(server: DaemonHome, mib: int) -> int:
    return server.submit(f"--gpu-memory={mib}", "--", "bash", "hold.sh", str(mib))


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
    (server.work / "go").touch()
    assert [server.wait_end(j)["peak_mib"] for j in jobs] == [8000, 9000]
    assert server.wait_end(third)["state"] == "COMPLETED"


def test_coarse_utilization_lets_jobs_share_where_the_site_says_so(server: DaemonHome) -> None:
    server.settings = ["core.use_coarse_smact=true", "core.smact_min_samples=1"]
    server.start()
    jobs = [hold(server, 8000) for _ in range(3)]
    wait_until(lambda: all(server.job(j)["state"] == "RUNNING" for j in jobs))
    (server.work / "go").touch()


def test_strangers_count(server: DaemonHome) -> None:
    (server.folder / "state").write_text("GPU-11111111-0000-0000-0000-000000000000 1 20000\n")
    server.start()
    assert [g["unmanaged_mib"] for g in server.ask("gpus")] == [20000, 0]
    job = hold(server, 30000)
    assert server.wait_state(job, "RUNNING")["devices"] == [server.ask("gpus")[1]["uuid"]]
    (server.work / "go").touch()


def test_mps_is_refused_until_it_is_there(server: DaemonHome) -> None:
    done = server.radrm("daemon", "--set", "mps.enabled=true")
    assert done.returncode == 2
    assert "not available on real GPUs in this release" in done.stderr
