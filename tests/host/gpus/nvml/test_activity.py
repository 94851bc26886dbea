"""The SM activity of single processes, as far as the driver tells it."""

from __future__ import annotations

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import Instant
from radrm.host.gpus.nvml import NvmlGpus, gpus
from tests.host.gpus.nvml.driver import NO_PERMISSION, Chip, Driver, process, sample

OWNERS = {11: (1, 1), 12: (1, 1), 21: (2, 2)}
WALL_S = 1000.0


class Bench:
    def __init__(self, mocker: MockerFixture, chip: Chip, *pids: int) -> None:
        chip.compute = [process(pid, 100) for pid in pids or OWNERS]
        self.chip = chip
        Driver(mocker, chip)
        self.gpus = NvmlGpus(pynvml)

    def shown(self, *samples: object) -> dict[int, float | None]:
        if samples:
            self.chip.samples = (*(self.chip.samples or ()), *samples)
        at = Instant(WALL_S, WALL_S)
        (reading,) = self.gpus.read(["GPU-a"], at, OWNERS.get)
        self.single = {each.pid: each.smact for each in reading.processes}
        return {each.job_id: each.smact for each in reading.attempts}


def test_the_processes_of_a_job_count_together(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(samples=()))
    assert bench.shown() == {1: 0.0, 2: 0.0}
    found = bench.shown(sample(11, 500, 20), sample(12, 500, 30), sample(21, 510, 40))
    assert found == pytest.approx({1: 0.5, 2: 0.4})
    assert bench.single == {11: 0.2, 12: 0.3, 21: 0.4}
    assert bench.shown() == {1: 0.0, 2: 0.0}, "no sample since then"
    assert bench.shown(sample(21, 600, 10), sample(21, 700, 30)) == {1: 0.0, 2: 0.2}
    assert bench.shown(sample(11, 800, 80), sample(12, 800, 80))[1] == 1.0


def test_samples_from_before_the_first_call_tell_nothing(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(samples=(sample(11, 500, 20),)))
    assert bench.shown() == {1: None, 2: None}
    assert bench.shown(sample(21, 600, 40)) == {1: 0.0, 2: 0.4}


def test_impossible_samples_are_dropped(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(samples=()))
    bench.shown()
    later_us = int(WALL_S * 1e6) + 61_000_000
    assert bench.shown(sample(11, 500, 101), sample(21, later_us, 40)) == {1: 0.0, 2: 0.0}
    assert bench.shown(sample(11, 600, 30)) == {1: 0.3, 2: 0.0}, "the time of a bad one is not kept"


@pytest.mark.parametrize("error", [NO_PERMISSION, 999])
def test_a_driver_that_does_not_tell_is_no_error(mocker: MockerFixture, error: int) -> None:
    bench = Bench(mocker, Chip(fails={"nvmlDeviceGetProcessUtilization": error}))
    assert bench.shown() == {1: None, 2: None}
    assert Bench(mocker, Chip()).shown() == {1: None, 2: None}, "not supported"


def test_one_job_alone_needs_none(mocker: MockerFixture) -> None:
    bench = Bench(mocker, Chip(samples=()), 11)
    assert bench.shown(sample(11, 500, 20)) == {1: None}


def test_the_processes_of_one_job_and_an_unmanaged_one_are_told_apart(
    mocker: MockerFixture,
) -> None:
    bench = Bench(mocker, Chip(samples=()), 11, 12, 99)
    bench.shown()
    assert bench.shown(sample(11, 500, 20), sample(99, 500, 60)) == {1: None}
    assert bench.single == {11: 0.2, 12: 0.0, 99: 0.6}


def test_work_that_counts_as_an_mps_servers_is_nobodys(mocker: MockerFixture) -> None:
    """A driver may not tell the clients of an MPS server apart."""
    bench = Bench(mocker, Chip(samples=()))
    bench.shown()
    assert bench.shown(sample(99, 500, 90)) == {1: 0.0, 2: 0.0}, "an unmanaged process"
    server = {"/proc/98/comm": b"nvidia-cuda-mps\n"}
    mocker.patch.object(gpus, "start_of", lambda path, _: server.get(path, b""))
    assert bench.shown(sample(98, 600, 90), sample(11, 600, 0)) == {1: None, 2: None}
    assert bench.single == {11: None, 12: None, 21: None}
