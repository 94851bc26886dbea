"""The memory of GPUs that use the server's: a DGX Spark, a Jetson."""

from __future__ import annotations

import psutil
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from radrm.core.records import AttemptMemory, Instant
from radrm.host.gpus import unified
from radrm.host.gpus.nvml import NvmlGpus
from radrm.host.gpus.unified import SLACK, STEP, UnifiedMemory
from tests.host.gpus.nvml.driver import LOST, NOT_SUPPORTED, Chip, Driver, listed, process

GIB = 1 << 30
AT = Instant(10.0, 1000.0)


class Server:
    """A server with 120 GiB; `closed`: its /proc cannot be read."""

    def __init__(self) -> None:
        self.used = 6.0
        self.closed = False

    def __call__(self) -> tuple[int, int]:
        if self.closed:
            raise FileNotFoundError("/proc/meminfo")
        return 120 * GIB, int((120 - self.used) * GIB)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(unified, "_of_server", made)
    return made


# ------------------------------------------------------------------ the server's memory


def test_the_server_keeps_what_it_needs(server: Server) -> None:
    memory = UnifiedMemory()
    found = memory.listed(0)
    assert (found.total, found.used, found.reserved) == (120 * GIB, 0, 7 * GIB)
    server.used = 6.5
    assert getattr(memory.now(0), "used", None) == 0, "the slack"
    server.used = 30
    assert getattr(memory.now(20 * GIB), "used", None) == 23 * GIB, "7 of 10 beside the GPU's 20"
    found = memory.listed(20 * GIB)
    assert found.reserved == 7 * GIB, "it does not grow"
    server.used = 3
    found = memory.listed(0)
    assert found.reserved == 4 * GIB, "it falls"
    assert getattr(memory.now(50 * GIB), "used", None) == 50 * GIB, "what the driver attributes"


@given(st.floats(0, 120), st.floats(0, 120), st.integers(0, 200 * GIB))
def test_figures_are_possible(first: float, later: float, held: int) -> None:
    server = Server()
    memory = UnifiedMemory(server)
    server.used = first
    memory.listed(held)
    server.used = later
    for found in (memory.now(held), memory.listed(held)):
        assert 0 <= found.used <= found.total and 0 <= found.reserved <= found.total
        assert found.reserved % STEP == 0 and found.reserved >= min(SLACK, found.total)


def test_the_servers_memory_is_the_kernels() -> None:
    assert UnifiedMemory().listed(0).total == psutil.virtual_memory().total


@pytest.mark.parametrize("figures", [(0, 0), (5, 6), (5, -1)])
def test_figures_that_cannot_be(figures: tuple[int, int]) -> None:
    assert UnifiedMemory(lambda: figures).listed(0) is None


# ------------------------------------------------------------------ by NVML


def spark(**figures: object) -> Chip:
    return Chip(name="NVIDIA GB10", fails={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}, **figures)


def test_a_gpu_is_listed_and_read(mocker: MockerFixture, server: Server) -> None:
    chip = spark(compute=[process(201, 20 * 1024)])
    Driver(mocker, chip, Chip(uuid="GPU-b"))
    gpus = NvmlGpus(pynvml)
    server.used = 26
    device, other = gpus.devices()
    assert (device.unified, device.total_mib, device.overhead_mib) == (True, 120 * 1024, 7 * 1024)
    assert not other.unified and gpus.problems == ()
    server.used = 30
    (reading,) = gpus.read(["GPU-a"], AT, lambda pid: (7, 1))
    assert (reading.error, reading.used_mib) == (None, 23 * 1024)
    assert reading.attempts == (AttemptMemory(7, 1, 20 * 1024),)
    assert reading.notes == ()
    chip.fails = {"*": LOST}
    (reading,) = gpus.read(["GPU-a"], AT, lambda pid: (7, 1))
    assert reading.error and "lost" in reading.error


def test_a_gpu_that_reports_no_byte(mocker: MockerFixture, server: Server) -> None:
    Driver(mocker, Chip(total=0, reserved=0, used=0))
    (device,) = NvmlGpus(pynvml).devices()
    assert device.unified and device.total_mib == 120 * 1024


def test_a_jetson_lists_no_processes_either(mocker: MockerFixture, server: Server) -> None:
    gpus = listed(mocker, spark(compute=None))
    server.used = 16
    (reading,) = gpus.read(["GPU-a"], AT, lambda pid: (7, 1))
    assert (reading.attempts, reading.used_mib, len(reading.notes)) == (None, 9 * 1024, 1)


def test_a_gpu_with_memory_never_gets_the_servers(mocker: MockerFixture, server: Server) -> None:
    chip = Chip()
    gpus = listed(mocker, chip)
    chip.fails = {"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}
    (reading,) = gpus.read(["GPU-a"], AT, lambda pid: None)
    assert (reading.error, reading.used_mib) == (None, None)


def test_without_any_figure_it_is_said(mocker: MockerFixture, server: Server) -> None:
    server.closed = True
    Driver(mocker, spark())
    gpus = NvmlGpus(pynvml)
    assert gpus.devices() == ()
    assert gpus.problems == ("GPU 0: the driver cannot read it (NVML error 3)",)
