"""Processes that radrm did not start, on a server with NVIDIA GPUs: what the site has chosen
becomes of them. `pynvml` is the real one, the unmanaged processes are real processes.

Who is spared, and when what is due: tests/host/gpus/test_unmanaged_*.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from radrm.host.health.gpus import has_hardware
from tests.daemon.harness import DaemonHome
from tests.standins.nvml_library import Nvml
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

UUID = "GPU-11111111-0000-0000-0000-000000000000"
IGNORING = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(99)"
)
# Holds memory on its GPU, and the GPU open, as long as it lives.
JOB = f"""\
exec 5< $1
echo process {UUID} $$ 900 >> $STAND_IN_NVML_STATE
until [ -e go ]; do sleep 0.05; done
"""


@pytest.fixture
def server(home: DaemonHome, nvml_driver: Nvml) -> DaemonHome:
    """One GPU of 40 GiB, and no daemon yet."""
    nvml_driver.gpu(UUID, utilization_gpu=5)
    home.gpus = None
    home.environment |= nvml_driver.environment
    return home


@contextmanager
def unmanaged(
    driver: Nvml, open_file: int = subprocess.DEVNULL, ignoring: bool = False
) -> Iterator[Any]:
    """A process past radrm on the GPU. `ignoring`: it does not heed TERM."""
    stubborn = (sys.executable, "-c", IGNORING)
    with subprocess.Popen(
        stubborn if ignoring else ("sleep", "1000"), stdin=open_file, stdout=subprocess.PIPE
    ) as process:
        if ignoring and process.stdout is not None:
            process.stdout.readline()
        driver.process(UUID, process.pid, 20_000, foreign=False)
        try:
            yield process
        finally:
            process.kill()


def seen(server: DaemonHome) -> dict[str, Any]:
    (gpu,) = server.ask("gpus")
    found: dict[str, Any] = gpu["unmanaged"][0] if gpu["unmanaged"] else {}
    return found


def test_counted(server: DaemonHome, nvml_driver: Nvml) -> None:
    server.start()
    with unmanaged(nvml_driver) as process:
        wait_until(lambda: seen(server).get("pid") == process.pid)
        assert "step" not in seen(server)
        assert f"unmanaged: process {process.pid} of" in server.radrm("gpus").stdout
        assert server.ask("page")["notes"] == []
        (gpu,) = server.ask("gpus", processes=True)
        (found,) = gpu["processes"]
        assert (found["pid"], found["kind"], found["command"]) == (
            process.pid,
            "unmanaged",
            "sleep 1000",
        )
        assert server.ask("gpus", processes=True, user="nobody")[0]["processes"] == []
    assert "was not started by radrm" not in server.said()


def test_told_of(server: DaemonHome, nvml_driver: Nvml) -> None:
    server.settings = ["unmanaged.action=warn", "unmanaged.grace_s=0"]
    server.start()
    with unmanaged(nvml_driver) as process:
        wait_until(lambda: seen(server).get("step") == "warned")
        wait_until(lambda: "on GPU 0 (sleep 1000)" in server.said(), "the line in the log")
        assert f"process {process.pid} of " in server.said()
        assert server.said().count("was not started by radrm") == 1
        assert (
            "1 unmanaged process on GPU 0 (radrm did not start it)"
            in server.ask("page")["notes"][0]
        )
        assert process.poll() is None


def test_drained(server: DaemonHome, nvml_driver: Nvml) -> None:
    server.settings = ["unmanaged.action=drain"]
    server.start()
    with unmanaged(nvml_driver):
        said = "takes no new job: others use 19.5G of it"
        wait_until(lambda: server.ask("gpus")[0]["reason"] == said, said)
        job = server.submit("--gpu-memory=1000", "--", "true")
        assert "unmanaged processes use" in server.job(job)["reason"]
        nvml_driver.gone(UUID)
        nvml_driver.gpu(UUID, utilization_gpu=5)
    assert server.wait_end(job)["state"] == "COMPLETED"


@pytest.fixture
def device() -> Iterator[IO[str]]:
    """A file that has the name of an NVIDIA device, open."""
    path = Path(f"/dev/nvidia-standin-{os.getpid()}")
    if os.getuid() != 0 or has_hardware() or not os.access("/dev", os.W_OK):
        pytest.skip("needs root, and a /dev without NVIDIA devices that can be written")
    path.write_text("")
    try:
        with path.open() as file:
            yield file
    finally:
        path.unlink()


@pytest.mark.parametrize("ignoring", [False, True])
def test_signalled(server: DaemonHome, nvml_driver: Nvml, device: IO[str], ignoring: bool) -> None:
    server.settings = ["unmanaged.action=signal", "unmanaged.grace_s=0"]
    server.fixed = ["unmanaged.kill_grace_s=0"]
    server.start()
    with unmanaged(nvml_driver, device.fileno(), ignoring) as process:
        assert process.wait(60) == -(signal.SIGKILL if ignoring else signal.SIGTERM)
    # The daemon logs a signal once it is sent, which may be after the process's end.
    wait_until(lambda: "TERM sent" in server.said())
    assert f"process {process.pid} of root on GPU 0" in server.said()


def test_a_job_is_never_signalled(server: DaemonHome, nvml_driver: Nvml, device: IO[str]) -> None:
    server.settings = ["unmanaged.action=signal", "unmanaged.grace_s=0"]
    server.start()
    server.file("job.sh", JOB)
    job = server.submit("--gpu-memory=1000", "--", "bash", "job.sh", device.name)
    wait_until(lambda: server.job(job)["peak_mib"])
    with unmanaged(nvml_driver, device.fileno()) as process:
        assert process.wait(60) == -signal.SIGTERM
    server.file("go", "")
    assert server.wait_end(job)["exit_code"] == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root signals")
def test_a_number_that_may_be_another_process_is_left_alone(
    server: DaemonHome, nvml_driver: Nvml
) -> None:
    """As in a container, where the driver tells the host's pids."""
    server.settings = ["unmanaged.action=signal", "unmanaged.grace_s=0"]
    server.start()
    with unmanaged(nvml_driver) as process:
        wait_until(lambda: seen(server).get("left"))
        assert "has a GPU open" in seen(server)["left"]
        assert process.poll() is None
