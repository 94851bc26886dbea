"""A small DGX: four A100s that are used in four ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemon.harness import DaemonHome
from tests.paths import STANDINS
from tests.standins.nvml_library import Nvml
from tests.waiting import wait_until

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
            "policy=magm",
            "core.smact_warm_s=0",
            "core.grace_s=4",  # a server in a fault is asked twice as often
        ]
        self.fixed = ["core.smact_after_exit_s=0"]
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
    def unmanaged(self, uuid: str, mib: int) -> Iterator[int]:
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
        options = (f"--gpu-memory={mib}:{mib}", "--collocation=mps")
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
