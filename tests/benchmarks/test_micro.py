"""What the driver's counters say of a GPU, as Figure 3.1 needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml
import pytest

from benchmarks.micro import _Counters
from tests.standins.nvml_library import Nvml
from tests.waiting import wait_until

UUID = "GPU-11111111-0000-0000-0000-000000000000"
NONE = (None, None)


@pytest.fixture
def driver(nvml: Nvml) -> Iterator[Nvml]:
    pynvml.nvmlInit()
    yield nvml
    pynvml.nvmlShutdown()


def test_counters_are_of_the_time_between_two_looks(driver: Nvml) -> None:
    driver.gpu(UUID, gpm=1, graphics_util=90, sm_util=1, sm_occupancy=25)
    counters = _Counters(pynvml, UUID)
    assert counters.read() == NONE, "a figure needs two samples"

    def later() -> tuple[float | None, float | None] | None:
        found = counters.read()
        return None if found == NONE else found

    assert wait_until(later, "samples 0.1 s apart") == (0.9, 0.25)


def test_a_gpu_without_them_gives_none(driver: Nvml) -> None:
    driver.gpu(UUID)
    counters = _Counters(pynvml, UUID)
    assert counters.read() == NONE and counters.read() == NONE
