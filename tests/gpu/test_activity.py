"""SM activity as the daemon reads it, against loads of known size."""

from __future__ import annotations

import pytest

from tests.gpu.conftest import MakeServer
from tests.gpu.requirements import missing
from tests.gpu.server import RealServer

pytestmark = pytest.mark.gpu

READINGS = 8
SPINNING = 16


def measured(server: RealServer, *words: object) -> float:
    """The mean SM activity while `matmul.py` runs with these words."""
    job = server.run("matmul.py", "--seconds", 120, *words)
    server.until(lambda: "step" in server.output(job), "the program to be at work")
    activity = server.activity(READINGS)
    server.radrm("cancel", str(job))
    server.wait_end(job)
    assert activity is not None
    return activity


@pytest.fixture
def counted(server: RealServer) -> RealServer:
    """A server that reads hardware counters, by GPM or DCGM."""
    if not server.counted():
        source = server.device()["smact_source"]
        missing("gpm", f"no SM activity by hardware counters here ({source}); see radrm doctor")
    return server


def test_an_idle_gpu_shows_none(counted: RealServer) -> None:
    assert counted.activity(READINGS) < 0.05


def test_matrix_products_fill_the_gpu(counted: RealServer) -> None:
    assert measured(counted, "--size", 8192) > 0.8


def test_half_of_the_time_is_half_of_the_activity(counted: RealServer) -> None:
    assert 0.3 < measured(counted, "--size", 8192, "--busy", 0.5) < 0.7


def test_few_blocks_are_little_activity(counted: RealServer) -> None:
    """The GPU is never without a kernel, which coarse utilization would call 100 %."""
    assert 0 < measured(counted, "--spin", SPINNING) < 0.5


def test_without_counters_the_reading_says_that_it_is_coarse(make_server: MakeServer) -> None:
    device = make_server().device()
    assert (device["smact"] is None) == (device["smact_source"] is None)
