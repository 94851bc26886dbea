"""Watts whose sum is the energy that was used."""

from __future__ import annotations

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from radrm.core.records import Instant
from radrm.host.gpus.nvml import NvmlGpus
from radrm.host.gpus.nvml.gpus import Power
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place
from tests.host.gpus.nvml.driver import LOST, NOT_SUPPORTED, Chip, Driver


class Bench:
    def __init__(self, mocker: MockerFixture, chip: Chip) -> None:
        self.chip = chip
        self.driver = Driver(mocker, chip)
        self.gpus = NvmlGpus(pynvml)
        self.now_s = 1000.0

    def watts(self, after_s: float = 1.0, used_j: float = 0.0) -> float | None:
        self.now_s += after_s
        if self.chip.energy_mj is not None:
            self.chip.energy_mj += round(used_j * 1000)
        at = Instant(self.now_s, self.now_s)
        (reading,) = self.gpus.read(["GPU-a"], at, lambda pid: None)
        return reading.power_w


def test_the_mean_since_the_last_reading(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(energy_mj=7_000_000, power_mw=250_000))
    assert bench.watts() == 250.0, "nothing to compare with yet"
    assert bench.watts(after_s=2.0, used_j=600) == 300.0
    assert bench.watts(after_s=1.0, used_j=80) == 80.0


def test_over_very_short_times_the_last_mean_stands(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(energy_mj=0))
    bench.watts()
    assert bench.watts(after_s=1.0, used_j=300) == 300.0
    assert bench.watts(after_s=0.01, used_j=100) == 300.0
    assert bench.watts(after_s=0.99, used_j=100) == 200.0, "since the last that counted"


def test_a_counter_that_is_set_back(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(energy_mj=7_000_000, power_mw=250_000))
    bench.watts()
    bench.chip.energy_mj = 10
    assert bench.watts() == 250.0
    assert bench.watts(used_j=120) == 120.0


@pytest.mark.parametrize("used_j", [0.0, 1e9])
def test_a_counter_that_cannot_be_true(mocker: MockerFixture, used_j: float) -> None:
    bench = Bench(mocker, Chip(energy_mj=7_000_000, power_mw=250_000))
    bench.watts()
    assert bench.watts(used_j=used_j) == 250.0


def test_a_counter_that_goes_away(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(energy_mj=7_000_000, power_mw=250_000))
    bench.watts()
    bench.chip.fails = {"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED}
    assert bench.watts() == 250.0
    bench.chip.fails = {"nvmlDeviceGetPowerUsage": NOT_SUPPORTED}
    assert bench.watts() is None
    assert bench.watts(used_j=90) == 90.0


def test_nothing_is_compared_across_an_error(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(energy_mj=7_000_000, power_mw=250_000))
    bench.watts()
    bench.chip.fails = {"*": LOST}
    assert bench.watts() is None
    bench.chip.fails = {}
    assert bench.watts(used_j=90) == 250.0


class Counter:
    """As much of `pynvml` as a meter asks for."""

    class NVMLError(Exception):
        value = NOT_SUPPORTED

    def __init__(self) -> None:
        self.energy_mj = 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: None) -> int:
        return self.energy_mj

    def nvmlDeviceGetPowerUsage(self, handle: None) -> int:
        return 1  # so that its use would show


@given(st.lists(st.tuples(st.floats(0.6, 30), st.integers(1_000, 1_000_000)), min_size=1))
def test_watts_times_time_is_the_energy(rounds: list[tuple[float, int]]) -> None:
    """Rounds of some seconds in which some energy (mJ) is used."""
    counter = Counter()
    power, place = Power(Library(counter)), Place(None, "GPU-a", None)
    now_s, sum_j = 50.0, 0.0
    power.read("GPU-a", place, now_s)
    for seconds, used_mj in rounds:
        counter.energy_mj += used_mj
        # The times as the reader of a reading computes them.
        before_s, now_s = now_s, now_s + seconds
        drawn = power.read("GPU-a", place, now_s)
        watts, set_back = drawn.power_w, drawn.set_back
        assert watts is not None and not set_back
        sum_j += watts * (now_s - before_s)
    assert sum_j == pytest.approx(counter.energy_mj / 1000, rel=1e-6)
