"""The whole daemon on a small DGX: four A100s that are used in four ways, and what breaks there.

GPU 0 is plain; GPU 1 is under MPS; GPU 2 is in MIG mode with instances of two sizes; GPU 3 is
plain, and strangers use it. SM activity comes from DCGM. `pynvml` is the real one; the driver's
library, `dcgmi` and `nvidia-cuda-mps-control` are stand-ins, jobs are real processes. What each
part does by itself has tests of its own (test_nvml, test_readings, test_mps): here nothing that
happens to one may harm the others.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from radrm.host.mps.control import PID_FILE, Control
from tests.daemon.harness import DaemonHome, wait_until
from tests.standins.nvml_library import Nvml

pytestmark = pytest.mark.daemon

STANDINS = Path(__file__).parents[1] / "standins"
PLAIN, SERVED, CUT, SHARED = GPUS = [f"GPU-{n * 8}-0000-0000-0000-000000000000" for n in "0123"]
SMALL, LARGE = "1g.5gb", "3g.20gb"
LOST = 15

# Holds memory on its GPUs as long as it lives. One that is MPS's goes on as its client; the
# others end well when the test lets them.
JOB = f"""\
#!/bin/bash
for uuid in ${{CUDA_VISIBLE_DEVICES//,/ }}; do
    echo "process $uuid $$ $1" >> $STAND_IN_NVML_STATE
done
[ -z "$2" ] || exec {sys.executable} {STANDINS}/mps_client.py notes-$RADRM_JOB_ID
until [ -e go-$RADRM_JOB_ID ]; do sleep 0.05; done
"""


class Dgx(DaemonHome):
    """The server, and what its parts say."""

    def __init__(self, folder: Path, driver: Nvml) -> None:
        super().__init__(folder, gpus=None)
        self.driver = driver
        for uuid in GPUS:
            driver.gpu(uuid, power_mw=120_000, utilization_gpu=None if uuid == CUT else 35)
        self.small = [driver.mig(CUT, SMALL) for _ in range(2)]
        self.large = driver.mig(CUT, LARGE)
        self.environment |= driver.environment
        self.environment |= {
            "PATH": f"{STANDINS / 'bin'}:{self.environment['PATH']}",
            "STANDIN_DCGMI": str(folder / "dcgmi.json"),
            "MPS_STANDIN_STATE": str(folder / "mps-state"),
        }
        self.settings = [
            "mps.enabled=[1]",
            "readings.smact=dcgm",
            "core.smact_warm_s=0",
            "core.smact_after_exit_s=0",
            "core.grace_s=4",  # a server in a fault is asked twice as often
        ]
        self.file("job.sh", JOB)
        self.dcgm("ok")

    def begin(self) -> None:
        """Start, and wait until all that it reads and serves is there."""
        self.start()
        wait_until(lambda: "up" in [row["state"] for row in self.ask("mps")], "MPS")
        wait_until(
            lambda: all(self.gpu(g)["smact_source"] == "dcgm" for g in GPUS if g != CUT), "DCGM"
        )

    # ------------------------------------------------------------- its parts

    def dcgm(self, mode: str) -> None:
        gpus = [{"id": n, "uuid": uuid, "smact": 0.3} for n, uuid in enumerate(GPUS)]
        self.write("dcgmi.json", {"gpus": gpus, "mode": mode, "interval_s": 0.2})

    def mps(self, **wrong: Any) -> None:
        self.write("mps-state", wrong)
        # The stand-in looks when it is asked something: at once, not at radrm's next question.
        pipes = self.folder / "home" / "run" / "mps" / SERVED[4:12]
        environment = {**self.environment, "CUDA_MPS_PIPE_DIRECTORY": str(pipes)}
        command = [sys.executable, str(STANDINS / "bin" / "nvidia-cuda-mps-control")]
        subprocess.run(command, input=b"get_server_list\n", env=environment, check=True)

    def write(self, name: str, state: dict[str, Any]) -> None:
        fresh = self.folder / f"{name}.new"
        fresh.write_text(json.dumps(state))
        os.replace(fresh, self.folder / name)

    @contextmanager
    def stranger(self, uuid: str, mib: int) -> Iterator[int]:
        """A process past radrm uses a GPU; its pid."""
        process = subprocess.Popen(["sleep", "1000"])
        try:
            self.driver.process(uuid, process.pid, mib, foreign=False)
            yield process.pid
        finally:
            process.kill()
            process.wait()

    def gpu(self, uuid: str) -> dict[str, Any]:
        (found,) = (g for g in self.ask("gpus") if g["uuid"] == uuid)
        return dict(found)

    def diagnosis(self) -> dict[str, tuple[str, str]]:
        """What `radrm doctor` says of the GPUs."""
        said = json.loads(self.radrm("doctor", "--json").stdout)
        about = ("GPUs", "MIG", "compute mode", "SM activity")
        return {f["check"]: (f["level"], f["finding"]) for f in said if f["check"] in about}

    # ------------------------------------------------------------- its jobs

    def hold(self, mib: int, *options: str) -> int:
        return self.submit(f"--gpu-memory={mib}", *options, "--", "bash", "job.sh", str(mib))

    def client(self, mib: int) -> int:
        options = (f"--gpu-memory={mib}", "--collocation=mps")
        return self.submit(*options, "--", "bash", "job.sh", str(mib), "client")

    def told(self, client: int, line: str) -> list[str]:
        notes = self.work / f"notes-{client}"
        return wait_until(
            lambda: notes.exists() and line in notes.read_text() and notes.read_text().split(),
            f"job {client} to be told {line}",
        )

    def runs_on(self, job: int) -> list[str]:
        """Where a job runs, once it does."""
        return list(self.wait_state(job, "RUNNING")["devices"])

    def peaks(self, *jobs: int) -> list[int]:
        """What jobs were seen to hold."""
        wait_until(lambda: all(self.job(job)["peak_mib"] for job in jobs), "their memory")
        return [self.job(job)["peak_mib"] for job in jobs]

    def waits(self, job: int, *words: str) -> None:
        """It waits, and `radrm explain` says why in these words."""

        def said() -> bool:
            explained = " ".join(self.radrm("explain", str(job)).stdout.split())
            return all(some in explained for some in words)

        wait_until(said, f"{words} in what is explained: {self.job(job)['reason']}")
        assert self.job(job)["state"] == "PENDING"

    def unharmed(self, *jobs: int) -> None:
        found = [self.job(job) for job in jobs]
        assert [(j["state"], j["attempts"]) for j in found] == [("RUNNING", 1)] * len(jobs), found

    def complete(self, *jobs: int) -> None:
        """Let jobs end, and see that they do so as they should."""
        for job in jobs:
            (self.work / f"go-{job}").touch()
        for job in jobs:
            found = self.wait_end(job)
            assert (found["state"], found["exit_code"], found["attempts"]) == ("COMPLETED", 0, 1)


@pytest.fixture
def dgx(nvml_driver: Nvml) -> Iterator[Dgx]:
    # Under /tmp itself: the address of a socket holds 107 bytes.
    with tempfile.TemporaryDirectory(prefix="dgx-") as folder:
        made = Dgx(Path(folder), nvml_driver)
        yield made
        try:
            made.close()
        finally:
            for file in made.folder.glob(f"home/run/mps/*/{PID_FILE}"):
                who = Control(str(file.parent), "", []).process()
                if who is not None:
                    os.kill(who.pid, signal.SIGKILL)


def test_jobs_of_all_kinds_land_where_they_belong(dgx: Dgx) -> None:
    dgx.begin()
    with dgx.stranger(SHARED, 20_000) as stranger:
        wait_until(lambda: dgx.gpu(SHARED)["unmanaged_mib"] == 20_000, "the stranger to be seen")
        assert [(g["index"], g["uuid"]) for g in dgx.ask("gpus")] == [
            *((0, PLAIN), (1, SERVED)),
            *((2, uuid) for uuid in (*dgx.small, dgx.large)),
            (3, SHARED),
        ]
        # The two clients share, each with a cap of its own.
        clients = [dgx.client(8192), dgx.client(4096)]
        pipes = dgx.folder / "home" / "run" / "mps" / SERVED[4:12]
        for job, cap in zip(clients, (8192, 4096), strict=True):
            notes = dgx.told(job, "ready")
            assert f"CUDA_VISIBLE_DEVICES={SERVED}" in notes
            assert f"CUDA_MPS_PIPE_DIRECTORY={pipes}" in notes
            assert f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={cap}M" in notes
            assert dgx.runs_on(job) == [SERVED]
        # An instance each.
        parts = [dgx.hold(3000, f"--mig-profile={SMALL}") for _ in range(2)]
        assert sorted(uuid for job in parts for uuid in dgx.runs_on(job)) == sorted(dgx.small)
        # The only GPU that nobody uses; a stranger's is none.
        alone = dgx.hold(21_000, "--collocation=exclusive")
        assert dgx.runs_on(alone) == [PLAIN]
        # There is an idle instance, and it is no second GPU.
        two = dgx.hold(6000, "--gpus=2")
        dgx.waits(two, "a job on several GPUs cannot span MIG instances")
        dgx.complete(alone)
        assert sorted(dgx.runs_on(two)) == [PLAIN, SHARED]
        # The stranger counts: 14 GiB are left of its GPU, and people see whose it is.
        beside = dgx.hold(16_000, "--collocation=timeslice")
        assert dgx.runs_on(beside) == [PLAIN]
        assert dgx.peaks(*parts, two, beside) == [3000, 3000, 6000, 16_000]
        (seen,) = (g for g in dgx.json("gpus") if g["uuid"] == SHARED)
        assert (seen["used_mib"], seen["unmanaged_mib"]) == (26_000, 20_000)
        assert seen["strangers"] == [
            {
                "pid": stranger,
                "used_mib": 20_000,
                "user": pwd.getpwuid(os.getuid()).pw_name,
                "command": "sleep 1000",
            }
        ]
        assert dgx.diagnosis() == {
            "GPUs": ("ok", "4 x NVIDIA A100-SXM4-40GB"),
            "MIG": ("ok", "on for GPU 2"),
            "compute mode": ("ok", "DEFAULT"),
            "SM activity": ("ok", "read by dcgm"),
        }
        large = dgx.hold(30_000)
        dgx.waits(large, "14.0G")
    assert dgx.runs_on(large) == [SHARED]
    dgx.complete(*parts, two, beside, large)
    dgx.radrm("cancel", *map(str, clients))
    assert [dgx.wait_end(job)["state"] for job in clients] == ["CANCELLED"] * 2


def test_trouble_with_sharing_stays_where_it_is(dgx: Dgx) -> None:
    """DCGM, MPS and an Xid: each keeps newcomers from what it concerns."""
    dgx.begin()
    client = dgx.client(8000)
    dgx.told(client, "ready")
    part = dgx.hold(3000, f"--mig-profile={SMALL}")
    both = [dgx.hold(20_000, "--collocation=timeslice") for _ in range(2)]
    assert sorted(uuid for job in both for uuid in dgx.runs_on(job)) == [PLAIN, SHARED]
    everybody = (client, part, *both)
    # DCGM dies. Nobody comes beside others, an idle instance can still be had.
    dgx.dcgm("down")
    wait_until(lambda: dgx.gpu(PLAIN)["smact_trouble"], "DCGM's end to show")
    beside = dgx.hold(4000, "--collocation=timeslice")
    dgx.waits(beside, "dcgmi")
    dgx.radrm("hold", str(beside))
    other_part = dgx.hold(3000, f"--mig-profile={SMALL}")
    dgx.runs_on(other_part)
    dgx.radrm("release", str(beside))
    dgx.dcgm("ok")
    dgx.runs_on(beside)
    dgx.unharmed(*everybody, other_part)
    dgx.complete(beside)
    # A fault of MPS, which stays for a while. Its client has lost its work.
    dgx.mps(fault=1, stuck=True)
    assert dgx.wait_end(client)["state"] == "FAILED"
    newcomer = dgx.client(9000)
    dgx.waits(newcomer, "MPS server is in a fault")
    dgx.mps(fault=1)
    dgx.told(newcomer, "ready")
    assert dgx.runs_on(newcomer) == [SERVED]
    dgx.unharmed(part, *both, other_part, newcomer)
    # An Xid says that GPU 0 is broken. Its job is left alone; nobody else comes.
    dgx.driver.xid(PLAIN, 79)
    wait_until(lambda: dgx.gpu(PLAIN)["state"] == "unhealthy", "the Xid")
    assert "Xid 79" in dgx.gpu(PLAIN)["reason"]
    dgx.unharmed(*both)
    dgx.complete(*both)
    alone = [dgx.hold(35_000, "--collocation=exclusive") for _ in range(2)]
    assert dgx.runs_on(alone[0]) == [SHARED]
    dgx.waits(alone[1], "Xid 79")
    assert dgx.radrm("resume", "0").returncode == 0
    assert dgx.runs_on(alone[1]) == [PLAIN]
    dgx.unharmed(part, other_part, newcomer)
    dgx.complete(*alone, part, other_part)
    dgx.radrm("cancel", str(newcomer))
    assert dgx.wait_end(newcomer)["state"] == "CANCELLED"


def test_devices_that_go_and_come_harm_no_others(dgx: Dgx) -> None:
    """A new partition, a lost GPU, a driver that hangs."""
    dgx.begin()
    client = dgx.client(8000)
    dgx.told(client, "ready")
    part = dgx.hold(15_000, f"--mig-profile={LARGE}")
    lost = dgx.hold(20_000, "--collocation=exclusive")
    assert dgx.runs_on(part) == [dgx.large]
    assert dgx.runs_on(lost) == [PLAIN]
    everybody = (client, part, lost)
    # GPU 2 is cut anew around the instance that is in use.
    for uuid in dgx.small:
        dgx.driver.gone(uuid)
    fresh = dgx.driver.mig(CUT, "2g.10gb")
    # GPU 0 is lost at the same time.
    dgx.driver.fail("*", LOST, PLAIN)
    wait_until(lambda: dgx.gpu(PLAIN)["state"] == "unreadable", "the loss to show")
    assert "lost" in dgx.gpu(PLAIN)["reason"]
    wait_until(lambda: fresh in [g["uuid"] for g in dgx.ask("gpus")], "the new instance")
    on_fresh = dgx.hold(9000, "--mig-profile=2g.10gb")
    assert dgx.runs_on(on_fresh) == [fresh]
    assert not {g["uuid"] for g in dgx.ask("gpus") if g["state"] != "vanished"} & {*dgx.small}
    refused = dgx.radrm("submit", f"--mig-profile={SMALL}", "--", "true")
    assert "can never run" in refused.stderr
    level, finding = dgx.diagnosis()["GPUs"]
    assert level == "fail" and finding.startswith("GPU 0: ")
    beside = dgx.hold(30_000)
    assert dgx.runs_on(beside) == [SHARED]
    dgx.unharmed(*everybody, on_fresh)
    dgx.driver.fail("*", 0, PLAIN)
    wait_until(lambda: dgx.gpu(PLAIN)["state"] == "busy", "GPU 0 to be back")
    # The driver hangs: nothing is known of any GPU, and nothing that runs is touched.
    dgx.driver.hang("nvmlDeviceGetMemoryInfo*")
    wait_until(
        lambda: {g["state"] for g in dgx.ask("gpus")} <= {"unreadable", "vanished"},
        "the driver's silence to be noticed",
    )
    waiting = dgx.hold(2000)
    dgx.waits(waiting, "the driver has not answered for")
    dgx.unharmed(*everybody, on_fresh, beside)
    dgx.complete(beside)
    dgx.driver.release("nvmlDeviceGetMemoryInfo*")
    dgx.runs_on(waiting)
    dgx.unharmed(*everybody, on_fresh)
    dgx.complete(part, lost, on_fresh, waiting)
    dgx.radrm("cancel", str(client))
    assert dgx.wait_end(client)["state"] == "CANCELLED"
