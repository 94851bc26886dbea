"""The NVML edge in trouble: one device that cannot be read, or the whole driver."""

from __future__ import annotations

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import Instant, Reading
from radrm.errors import DeviceError
from radrm.host.gpus.nvml import NvmlGpus
from tests.host.gpus.nvml.driver import (
    LOST,
    MISMATCH,
    NOT_FOUND,
    RESET,
    UNKNOWN,
    Chip,
    Driver,
    listed,
    mig_gpu,
    process,
)

AT = Instant(boot_s=10.0, wall_s=1000.0)


def nobody(pid: int) -> None:
    """No process is one of ours."""


# ------------------------------------------------------------------ a device in trouble


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (LOST, ("lost", "reboot")),
        (RESET, ("must be reset", "gpu-reset")),
        (NOT_FOUND, ("no longer knows it",)),
        (10, ("did not answer in time",)),
        (UNKNOWN, ("Unknown Error",)),
    ],
)
def test_a_device_in_trouble_harms_no_other(
    mocker: MockerFixture, code: int, words: tuple[str, ...]
) -> None:
    broken = Chip(uuid="GPU-b")
    gpus = listed(mocker, Chip(), broken, Chip(uuid="GPU-c"))
    broken.fails = {"*": code}
    before, cause, after = gpus.read(["GPU-a", "GPU-b", "GPU-c"], AT, nobody)
    assert (before.error, after.error) == (None, None)
    assert cause == Reading("GPU-b", AT, error=cause.error)
    assert f"(NVML error {code})" in cause.error
    for word in words:
        assert word in cause.error


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    ],
)
def test_a_reading_that_fails_halfway_has_nothing_but_its_error(
    mocker: MockerFixture, call: str
) -> None:
    Driver(mocker, Chip(compute=[process(201, 900)], fails={call: LOST}))
    (reading,) = NvmlGpus(pynvml).read(["GPU-a"], AT, lambda pid: (7, 1))
    assert reading == Reading("GPU-a", AT, error=reading.error)
    assert reading.error


def test_a_lost_gpu_stays_listed_and_others_are_found(mocker: MockerFixture) -> None:
    broken = Chip(uuid="GPU-b")
    driver = Driver(mocker, Chip(), broken)
    gpus = NvmlGpus(pynvml)
    before = gpus.devices()
    broken.fails = {"*": LOST}
    driver.chips.append(Chip(uuid="GPU-c"))
    assert [d.uuid for d in gpus.devices()] == ["GPU-a", "GPU-b", "GPU-c"]
    assert gpus.devices()[1] == before[1]
    assert len(gpus.problems) == 1
    assert gpus.problems[0].startswith("GPU 1: the GPU is lost")


def test_a_problem_of_several_gpus_is_said_once(mocker: MockerFixture) -> None:
    chips = [Chip(uuid=f"GPU-{n}", fails={"*": LOST} if n != 3 else {}) for n in range(8)]
    chips += [mig_gpu(), mig_gpu()]
    Driver(mocker, *chips)
    gpus = NvmlGpus(pynvml)
    assert [device.uuid for device in gpus.devices()] == ["GPU-3"]
    starts = [problem.partition(":")[0] for problem in gpus.problems]
    assert starts == ["GPU 0-2, 4-7", "GPU 8, 9"]


def test_no_device_is_listed_twice_when_indices_shift(mocker: MockerFixture) -> None:
    first, second, third = Chip(uuid="GPU-1"), Chip(uuid="GPU-2"), Chip(uuid="GPU-3")
    driver = Driver(mocker, first, second, third)
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    driver.chips = [second, third]
    second.fails = {"*": LOST}
    uuids = [d.uuid for d in gpus.devices()]
    assert sorted(set(uuids)) == sorted(uuids)
    assert "GPU-3" in uuids


def test_a_device_is_initialised_anew_after_trouble(mocker: MockerFixture) -> None:
    chip = Chip()
    driver = Driver(mocker, chip)
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    chip.fails = {"*": LOST}
    gpus.read(["GPU-a"], AT, nobody)
    chip.fails = {}
    assert gpus.read(["GPU-a"], AT, nobody)[0].used_mib == 1000
    assert (driver.inits, driver.shutdowns) == (1, 0)
    gpus.devices()
    assert (driver.inits, driver.shutdowns) == (2, 1)
    gpus.devices()
    assert driver.inits == 2


# ------------------------------------------------------------------ the library in trouble


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "closed the connection"),
        (9, "modprobe nvidia"),
        (12, "the NVIDIA driver is not installed"),
        (MISMATCH, "reboot the server"),
        (UNKNOWN, "check nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_answer(mocker: MockerFixture, code: int, words: str) -> None:
    driver = Driver(mocker, Chip())
    driver.fails = {"*": code}
    gpus = NvmlGpus(pynvml)
    with pytest.raises(DeviceError, match=words):
        gpus.devices()
    number = "^the NVIDIA driver is not" if code == 12 else rf"\(NVML error {code}\)"
    with pytest.raises(DeviceError, match=number):
        gpus.read(["GPU-a"], AT, nobody)


@pytest.mark.parametrize("code", [1, 9, MISMATCH])
def test_a_driver_that_dies_under_us_and_comes_back(mocker: MockerFixture, code: int) -> None:
    driver = Driver(mocker, Chip())
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    driver.fails = {"*": code}
    for _ in range(2):
        with pytest.raises(DeviceError):
            gpus.read(["GPU-a"], AT, nobody)
    driver.fails = {}
    assert gpus.read(["GPU-a"], AT, nobody)[0].used_mib == 1000
    assert driver.inits == 2


def test_closing_twice_and_with_a_dead_driver(mocker: MockerFixture) -> None:
    driver = Driver(mocker, Chip())
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    driver.fails = {"nvmlShutdown": UNKNOWN}
    gpus.close()
    gpus.close()
    driver.fails = {}
    assert len(gpus.devices()) == 1
    gpus.close()
    assert driver.shutdowns == 1
