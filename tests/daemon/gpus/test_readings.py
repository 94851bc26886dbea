"""The daemon with SM activity from DCGM: jobs share by it, and do not while it is not there.

NVML, `dcgmi` and `nvidia-smi` are stand-ins; jobs are real processes. The clock is not scaled,
so these take some seconds each.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.daemon.harness import DaemonHome
from tests.paths import BIN
from tests.standins.exporter import Exporter
from tests.standins.nvml_library import H100, Nvml
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

GPU = "GPU-11111111-0000-0000-0000-000000000000"

# Holds memory on its GPU as long as it lives, and waits.
JOB = """\
#!/bin/bash
echo "process $CUDA_VISIBLE_DEVICES $$ $1" >> $STAND_IN_NVML_STATE
until [ -e go ]; do sleep 0.05; done
"""


class Server:
    """A home with one GPU, and what the stand-ins say."""

    def __init__(self, home: DaemonHome, driver: Nvml) -> None:
        self.home = home
        self.driver = driver
        home.gpus = None
        home.settings = [
            "policy=magm",
            "core.smact_warm_s=0",
            "readings.smact=dcgm",
        ]
        home.fixed = ["core.smact_after_exit_s=0"]
        home.environment |= driver.environment
        home.environment["PATH"] = f"{BIN}:{home.environment['PATH']}"
        home.environment["STANDIN_DCGMI"] = str(home.folder / "dcgmi.json")
        home.environment["STANDIN_SMI"] = str(home.folder / "smi.json")
        home.file("hold.sh", JOB)
        self.dcgm("ok")

    def dcgm(self, mode: str, smact: float | None = 0.3) -> None:
        gpu = {"id": 0, "uuid": GPU, "smact": smact, "power": 99.5}
        self.write("dcgmi.json", {"gpus": [gpu], "mode": mode, "interval_s": 0.2})

    def write(self, name: str, state: dict[str, Any]) -> None:
        fresh = self.home.folder / f"{name}.new"
        fresh.write_text(json.dumps(state))
        os.replace(fresh, self.home.folder / name)

    def children(self) -> list[int]:
        """The living ones of all that were started to stream, by pid."""
        starts = (self.home.folder / "dcgmi.json.starts").read_text().splitlines()
        pids = [int(line.split()[0]) for line in starts if " dmon " in line]
        return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]

    def hold(self, mib: int = 4000) -> int:
        return self.home.submit(f"--gpu-memory={mib}", "--", "bash", "hold.sh", str(mib))

    def gpu(self) -> dict[str, Any]:
        (found,) = self.home.ask("gpus")
        return dict(found)

    def wait_reason(self, job: int, words: str) -> None:
        wait_until(
            lambda: words in str(self.home.job(job)["reason"]),
            f"{words!r} in the reason: {self.home.job(job)['reason']}",
        )


@pytest.fixture
def server(home: DaemonHome, nvml_driver: Nvml) -> Server:
    nvml_driver.gpu(GPU, power_mw=120_000, utilization_gpu=35)
    return Server(home, nvml_driver)


def test_jobs_share_while_dcgm_measures(server: Server) -> None:
    server.home.start()
    first, second = server.hold(), server.hold()
    for job in (first, second):
        server.home.wait_state(job, "RUNNING")
    fields, expected = ("smact", "smact_source", "power_w"), [0.3, "dcgm", 120.0]
    wait_until(lambda: [server.gpu()[field] for field in fields] == expected, "a reading of DCGM")
    assert len(server.children()) == 1
    # One that is busy is seen to be.
    server.dcgm("ok", smact=0.95)
    wait_until(lambda: server.gpu()["smact"] == 0.95)
    third = server.hold()
    server.wait_reason(third, "SM")
    server.dcgm("ok", smact=0.1)
    server.home.wait_state(third, "RUNNING")
    # The host engine dies: nobody comes beside the two, and people read why.
    server.dcgm("down")
    wait_until(lambda: server.gpu()["smact"] is None)
    fourth = server.hold()
    server.wait_reason(fourth, "dcgmi")
    explained = server.home.radrm("explain", str(fourth))
    assert "dcgmi" in explained.stdout
    assert server.home.job(fourth)["state"] == "PENDING"
    # It comes back, and the daemon finds that out by itself.
    server.dcgm("ok")
    server.home.wait_state(fourth, "RUNNING")
    said = server.home.said()
    assert "few jobs share it, by memory: " in said
    assert "SM activity comes from dcgm" in said


def test_left_to_itself_the_daemon_finds_dcgm(server: Server) -> None:
    server.home.settings = ["policy=magm", "core.smact_warm_s=0"]
    server.home.start()
    assert server.gpu()["smact_source"] == "nvml-utilization"
    wait_until(lambda: server.gpu()["smact_source"] == "dcgm")


def test_hopper_needs_no_dcgm(home: DaemonHome, nvml_driver: Nvml) -> None:
    nvml_driver.gpu(GPU, model=H100, sm_util=42)
    server = Server(home, nvml_driver)
    home.settings = ["policy=magm", "core.smact_warm_s=0"]
    home.start()
    wait_until(lambda: server.gpu()["smact_source"] == "gpm")
    assert server.gpu()["smact"] == pytest.approx(0.42)
    assert not (home.folder / "dcgmi.json.starts").exists()


@pytest.mark.nightly
def test_dcgm_exporter_does_where_there_is_no_dcgmi(server: Server) -> None:
    exporter = Exporter(f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{GPU}"}} 0.25\n', renewing=True)
    server.dcgm("down")
    server.home.settings = [
        "policy=magm",
        "core.smact_warm_s=0",
        f"readings.dcgm_exporter={json.dumps(exporter.url)}",
    ]
    server.home.start()
    wait_until(lambda: server.gpu()["smact_source"] == "dcgm-exporter")
    assert server.gpu()["smact"] == 0.25
    first, second = server.hold(), server.hold()
    for job in (first, second):
        server.home.wait_state(job, "RUNNING")
    exporter.close()
    wait_until(lambda: server.gpu()["smact"] is None)
    server.wait_reason(server.hold(), "no dcgm-exporter listens")


def test_the_child_ends_with_its_daemon_however_that_ends(server: Server) -> None:
    server.home.start()
    wait_until(lambda: server.gpu()["smact_source"] == "dcgm")
    assert len(server.children()) == 1
    assert server.home.stop() == 0
    assert server.children() == []
    server.home.start()
    wait_until(lambda: server.gpu()["smact_source"] == "dcgm")
    server.home.kill()
    wait_until(lambda: server.children() == [])
    server.home.served = False


def test_a_driver_that_hangs_is_noticed_and_used_again(server: Server) -> None:
    server.home.start()
    jobs = [server.hold() for _ in range(2)]
    for job in jobs:
        server.home.wait_state(job, "RUNNING")
    server.driver.hang("nvmlDeviceGetMemoryInfo*")
    found = wait_until(lambda: server.gpu()["state"] == "unreadable" and server.gpu())
    assert isinstance(found, dict)
    assert "the driver has not answered for" in found["reason"]
    new_job = server.hold()
    server.wait_reason(new_job, "the driver has not answered for")
    assert server.home.job(jobs[0])["state"] == "RUNNING", "what runs goes on"
    server.home.radrm("cancel", str(jobs[1]))
    assert server.home.wait_end(jobs[1])["state"] == "CANCELLED", "it answers, and ends jobs"
    server.driver.release("nvmlDeviceGetMemoryInfo*")
    server.home.wait_state(new_job, "RUNNING")
    (server.home.work / "go").touch()
    for job in (jobs[0], new_job):
        assert server.home.wait_end(job)["state"] == "COMPLETED"


@pytest.mark.parametrize("functions", ["*", "nvmlShutdown"])
def test_the_daemon_ends_while_the_driver_hangs(server: Server, functions: str) -> None:
    server.home.start()
    before = len(server.driver.calls())
    server.driver.hang(functions)
    wait_until(lambda: len(server.driver.calls()) > before, "a call since then")
    assert server.home.stop() == 0
    assert server.children() == []
    server.home.served = False


def test_a_server_without_nvml_is_read_through_nvidia_smi(server: Server) -> None:
    del server.home.environment["STAND_IN_NVML_STATE"]  # no driver, as far as NVML goes
    mine = {"uuid": GPU, "memory.used": "700", "utilization.gpu": "35"}
    server.write("smi.json", {"gpus": [mine], "mode": "ok", "interval_s": 0.2})
    server.home.file("hold.sh", "#!/bin/bash\nuntil [ -e go ]; do sleep 0.05; done\n")
    server.home.start()
    assert "nvidia-smi is used instead" in server.home.said()
    found = wait_until(lambda: server.gpu()["smact_source"] == "dcgm" and server.gpu())
    assert isinstance(found, dict)
    assert (found["total_mib"], found["used_mib"], found["smact"]) == (40960, 700, 0.3)
    server.home.wait_state(server.hold(), "RUNNING")
