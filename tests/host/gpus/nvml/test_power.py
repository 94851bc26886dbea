"""Watts whose sum is the energy that was used."""

from __future__ import annotations

from typing import Any

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

ENERGY, POWER = "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"
FIRST: tuple[dict[str, Any], float, float, float] = ({}, 1.0, 0, 250.0)
"""The first reading has nothing to compare with."""
ROUNDS: dict[str, list[tuple[dict[str, Any], float, float, float | None]]] = {
    # What changes of the GPU, the seconds and joules since the last reading; the watts.
    "the mean since the last reading": [FIRST, ({}, 2.0, 600, 300.0), ({}, 1.0, 80, 80.0)],
    "over very short times the last mean stands": [
        *(FIRST, ({}, 1.0, 300, 300.0), ({}, 0.01, 100, 300.0)),
        ({}, 0.99, 100, 200.0),  # since the last that counted
    ],
    "a counter is set back": [FIRST, ({"energy_mj": 10}, 1.0, 0, 250.0), ({}, 1.0, 120, 120.0)],
    "a counter stands still": [FIRST, ({}, 1.0, 0, 250.0)],
    "a counter leaps": [FIRST, ({}, 1.0, 1e9, 250.0)],
    "a counter goes away": [
        *(FIRST, ({"fails": {ENERGY: NOT_SUPPORTED}}, 1.0, 0, 250.0)),
        *(({"fails": {POWER: NOT_SUPPORTED}}, 1.0, 0, None), ({}, 1.0, 90, 90.0)),
    ],
    "nothing is compared across an error": [
        *(FIRST, ({"fails": {"*": LOST}}, 1.0, 0, None), ({"fails": {}}, 1.0, 90, 250.0)),
    ],
}


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
def test_the_watts_of_readings(mocker: MockerFixture, rounds: list[Any]) -> None:
    chip = Chip(energy_mj=7_000_000, power_mw=250_000)
    Driver(mocker, chip)
    gpus, now_s = NvmlGpus(pynvml), 1000.0
    for changes, after_s, used_j, watts in rounds:
        now_s += after_s
        chip.energy_mj += round(used_j * 1000)
        for name, value in changes.items():
            setattr(chip, name, value)
        (reading,) = gpus.read(["GPU-a"], Instant(now_s, now_s), lambda pid: None)
        assert reading.power_w == watts


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
