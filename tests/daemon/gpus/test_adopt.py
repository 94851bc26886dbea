"""`radrm adopt` end to end: a real process holds memory of a simulated GPU, and no job has started
it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from radrm.host.attempts.evidence import Evidence
from radrm.host.clock import Clock
from tests.daemon.harness import DaemonHome, simjob
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon
GIB = 1024


@contextmanager
def training(server: DaemonHome, gpu: str = "0", gib: int = 10) -> Iterator[subprocess.Popen[str]]:
    """A training past radrm, seen on its GPU."""
    socket = server.folder / "home" / "run" / "gpus.sock"
    more = {"RADRM_SIMULATED_GPUS": str(socket), "CUDA_VISIBLE_DEVICES": gpu}
    with subprocess.Popen(
        simjob(gib, 0.5, 900_000),
        env={**server.environment, **more},
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            wait_until(lambda: (process.pid, gib * GIB) in unmanaged(server), "it to be seen")
            yield process
        finally:
            process.kill()


def unmanaged(server: DaemonHome) -> list[tuple[int, int]]:
    found = [each for gpu in server.ask("gpus") for each in gpu["unmanaged"]]
    return [(each["pid"], each["used_mib"]) for each in found]


def adopted(server: DaemonHome, process: subprocess.Popen[str], *words: str) -> dict[str, Any]:
    done = server.radrm("adopt", str(process.pid), *words)
    assert done.returncode == 0, done.stderr
    assert f"Adopted process {process.pid} as job " in done.stdout
    return server.wait_state(f"adopted-{process.pid}", "RUNNING")


def test_a_process_becomes_a_job_that_survives_the_daemon(daemon: DaemonHome) -> None:
    with training(daemon) as process, training(daemon, "1", 6) as other:
        job = adopted(daemon, process, "--gpu-memory=12G", "--comment=mine")
        assert (job["devices"], job["comment"]) == ([daemon.ask("gpus")[0]["uuid"]], "mine")
        assert (job["reserved_mib"], job["adopted"]["pid"]) == (12 * GIB, process.pid)
        again = daemon.radrm("adopt", str(process.pid))
        said = f"radrm: process {process.pid} belongs to job {job['label']}\n"
        assert (again.returncode, again.stderr) == (1, said)
        wait_until(lambda: daemon.job(job["id"])["peak_mib"] == 10 * GIB, "its memory")
        assert unmanaged(daemon) == [(other.pid, 6 * GIB)]
        daemon.kill()
        daemon.start()
        wait_until(lambda: daemon.ask("gpus")[0]["used_mib"] == 10 * GIB, "a reading")
        (first, _) = daemon.ask("gpus")
        assert (first["unmanaged_mib"], first["jobs"]) == (0, [job["id"]])
        assert daemon.job(job["id"])["state"] == "RUNNING"
        daemon.kill()
        process.kill()
        process.wait()
        daemon.start()
        ended = daemon.wait_end(job["id"])
        assert (ended["state"], ended["outcome"]) == ("COMPLETED", "completed")
        assert (ended["exit_code"], ended["attempts"]) == (None, 1)
        assert ended["reason"] == f"process {process.pid} has ended; its exit status is unknown"

        # Its time is over: it runs on, and is unmanaged again.
        short = adopted(daemon, other, "--for=100")
        ended = daemon.wait_end(short["id"])
        assert (ended["state"], ended["exit_code"]) == ("COMPLETED", None)
        assert "--for 1m40s) is over" in ended["reason"] and other.poll() is None
        wait_until(lambda: unmanaged(daemon) == [(other.pid, 6 * GIB)], "it to be unmanaged")

        # A killed runner does not take along what radrm did not start.
        lost = daemon.radrm("adopt", str(other.pid), "--name=lost", "--json")
        assert lost.returncode == 0, lost.stderr
        lost_id = daemon.wait_state("lost", "RUNNING")["id"]
        folder = daemon.folder / "home" / "attempts" / "3"
        runner = Evidence(str(folder), Clock()).runner()
        assert runner is not None and hasattr(runner, "pid")
        os.kill(runner.pid, signal.SIGKILL)
        ended = daemon.wait_end(lost_id)
        assert (ended["state"], ended["outcome"]) == ("FAILED", "lost")
        assert other.poll() is None
        for words in (["requeue"], ["edit", "--time=5"]):
            done = daemon.radrm(words[0], str(lost_id), *words[1:])
            assert done.returncode == 1 and done.stderr.count("\n") == 1

        mistaken = daemon.radrm("adopt", "1")
        assert mistaken.returncode == 1 and mistaken.stderr.startswith("radrm: process 1 is init")
        assert mistaken.stderr.count("\n") == 1

        # A cancel ends it.
        wait_until(lambda: unmanaged(daemon) == [(other.pid, 6 * GIB)], "it to be unmanaged")
        last = daemon.radrm("adopt", str(other.pid), "--name=last")
        assert last.returncode == 0, last.stderr
        number = daemon.wait_state("last", "RUNNING")["id"]
        assert "--time does not apply" in daemon.radrm("edit", str(number), "--time=5").stderr
        assert "did not start" in daemon.radrm("migrate", str(number)).stderr
        assert daemon.radrm("cancel", str(number)).returncode == 0
        assert daemon.wait_end(number)["state"] == "CANCELLED"
        assert other.wait(30) != 0
