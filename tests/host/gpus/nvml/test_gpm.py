"""SM activity by GPM: what two samples say, and what is said when they say nothing."""

from __future__ import annotations

import math

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.host.gpus.gpm import Gpm
from radrm.host.gpus.nvml import NvmlGpus
from tests.host.gpus.nvml.driver import (
    LOST,
    NO_FUNCTION,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    Chip,
    Driver,
    instance,
    mig_gpu,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class World:
    """A driver with these GPUs, all of them listed and fed."""

    def __init__(self, mocker: MockerFixture, *chips: Chip) -> None:
        self.driver = Driver(mocker, *chips)
        self.gpus = NvmlGpus(pynvml)
        self.clock = Clock()
        self.gpm = Gpm(self.gpus, self.clock)
        self.gpm.start(self.gpus.devices())

    def ask(self, uuid: str = "GPU-a", after_s: float = 1.0) -> float | None:
        self.clock.now_s += after_s
        sample = self.gpm.latest(uuid)
        return sample.smact if sample is not None else None


def hopper(**given: object) -> Chip:
    return Chip(name="NVIDIA H100 80GB HBM3", gpm=True, **given)


def test_samples_lie_far_enough_apart_and_the_last_figure_stands_meanwhile(
    mocker: MockerFixture,
) -> None:
    chip = hopper()
    world = World(mocker, chip)
    world.ask(), world.ask()
    chip.activity = 90.0
    assert world.ask(after_s=0.1) == 0.5
    assert world.gpm.latest("GPU-a").age_s == pytest.approx(0.1)
    assert world.ask(after_s=0.1) == 0.9
    assert world.driver.calls.count("nvmlGpmSampleGet") == 3


def test_figures_over_a_long_pause_are_not_taken(mocker: MockerFixture) -> None:
    chip = hopper()
    world = World(mocker, chip)
    world.ask(), world.ask()
    chip.activity = 90.0
    assert world.ask(after_s=3600.0) == 0.5
    assert world.gpm.latest("GPU-a").age_s == pytest.approx(3600.0), "and it says how old"
    assert world.ask() == 0.9


def test_a_gpu_without_gpm_is_none_of_its(mocker: MockerFixture) -> None:
    world = World(mocker, Chip(), hopper(uuid="GPU-h"))
    for _ in range(3):
        assert world.ask("GPU-a") is None
        world.ask("GPU-h")
    assert world.ask("GPU-h") == 0.5
    assert world.gpm.error("GPU-a") is None
    assert world.driver.calls.count("nvmlGpmQueryDeviceSupport") == 2, "asked once for each"


@pytest.mark.parametrize("call", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet"])
@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION])
def test_what_never_was_offered_is_no_trouble(mocker: MockerFixture, call: str, code: int) -> None:
    world = World(mocker, hopper(fails={call: code}))
    assert [world.ask() for _ in range(3)] == [None] * 3
    assert world.gpm.error("GPU-a") is None
    world.gpus.close()
    assert [world.ask() for _ in range(3)] == [None] * 3
    assert world.gpm.error("GPU-a") is None


def test_a_device_that_is_unknown_to_it(mocker: MockerFixture) -> None:
    world = World(mocker, hopper())
    assert world.gpm.latest("GPU-z") is None
    assert world.gpm.error("GPU-z") is None
    assert world.gpm.latest("GPU-z") is None


@pytest.mark.parametrize(
    "fails",
    [
        {"nvmlGpmSampleGet": UNKNOWN},
        {"nvmlGpmSampleGet": NOT_SUPPORTED},
        {"nvmlGpmSampleGet": LOST},
    ],
)
def test_trouble_after_it_has_served(mocker: MockerFixture, fails: dict[str, int]) -> None:
    chip = hopper()
    world = World(mocker, chip)
    world.ask(), world.ask()
    chip.fails = fails
    assert world.ask() is None
    cause = world.gpm.error("GPU-a")
    assert cause.startswith("GPM gives no SM activity: ")
    chip.fails = {}
    assert world.ask() is None, "a sample from before is no beginning"
    assert world.gpm.error("GPU-a") == cause
    assert world.ask() == 0.5
    assert world.gpm.error("GPU-a") is None


@pytest.mark.parametrize("fails", [{"nvmlGpmMetricsGet": UNKNOWN}, {"nvmlGpmSampleAlloc": 20}])
def test_trouble_from_the_start(mocker: MockerFixture, fails: dict[str, int]) -> None:
    world = World(mocker, hopper())
    world.driver.fails = fails
    assert [world.ask() for _ in range(3)] == [None] * 3
    assert world.gpm.error("GPU-a")
    world.driver.fails = {}
    world.ask(), world.ask()
    assert world.ask() == 0.5


def test_the_error_of_the_figure_itself_counts(mocker: MockerFixture) -> None:
    chip = hopper(gpm_return=NOT_SUPPORTED)
    world = World(mocker, chip)
    assert [world.ask(), world.ask()] == [None, None]
    cause = world.gpm.error("GPU-a")
    assert "NVML error 3" in cause


@pytest.mark.parametrize(
    ("percent", "share"),
    [
        (62.5, 0.625),
        (0.0, 0.0),
        (100.4, 1.0),
        # What cannot be is none.
        *((101.5, None), (-0.1, None), (math.nan, None), (math.inf, None), (255.0, None)),
    ],
)
def test_two_samples_make_a_figure(
    mocker: MockerFixture, percent: float, share: float | None
) -> None:
    world = World(mocker, hopper(activity=percent))
    assert world.ask() is None
    assert world.ask() == share
    assert (world.gpm.error("GPU-a") is None) is (share is not None)


def test_a_mig_instance_is_asked_for_through_its_gpu(mocker: MockerFixture) -> None:
    one, two = instance("MIG-1", "1g.10gb"), instance("MIG-2", "3g.40gb")
    one.activity, two.activity = 10.0, 80.0
    gpu = mig_gpu(one, None, two)
    gpu.gpm = True
    world = World(mocker, gpu)
    for uuid in ("MIG-1", "MIG-2"):
        world.ask(uuid)
    assert (world.ask("MIG-1"), world.ask("MIG-2")) == (0.1, 0.8)
    assert "nvmlGpmSampleGet" not in world.driver.calls


# ------------------------------------------------------------------ the driver's buffers


def test_buffers_are_freed_when_a_device_goes(mocker: MockerFixture) -> None:
    world = World(mocker, hopper(), hopper(uuid="GPU-b"))
    for uuid in ("GPU-a", "GPU-b"):
        world.ask(uuid)
    assert world.driver.samples == 4
    world.gpm.start([d for d in world.gpus.devices() if d.uuid == "GPU-b"])
    assert world.driver.samples == 2
    assert world.ask("GPU-a") is None
    assert world.ask("GPU-b") == 0.5
    world.gpus.close()
    assert world.driver.samples == 0


def test_a_new_connection_begins_anew(mocker: MockerFixture) -> None:
    world = World(mocker, hopper())
    world.ask(), world.ask()
    world.gpus.close()
    assert world.driver.samples == 0
    assert world.ask() == 0.5, "the figure of before, which says its age"
    sample = world.gpm.latest("GPU-a")
    assert sample.age_s == pytest.approx(1.0)
    world.ask()
    sample = world.gpm.latest("GPU-a")
    assert sample.age_s == 0.0
    world.gpus.close()
    assert world.driver.samples == 0


def test_a_dead_driver_raises_nothing(mocker: MockerFixture) -> None:
    world = World(mocker, hopper())
    world.ask(), world.ask()
    world.driver.fails = {"*": 9}
    world.gpus.close()
    assert world.ask() is None
    cause = world.gpm.error("GPU-a")
    assert "modprobe nvidia" in cause


def test_gpus_that_are_refused_alike_have_one_line(
    mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the driver lets only root read the counters."""
    refused = {"nvmlGpmSampleGet": NO_PERMISSION}
    world = World(mocker, *(hopper(uuid=f"GPU-{name}", fails=refused) for name in "abcd"))
    for name in "abcd":
        assert world.ask(f"GPU-{name}") is None
    (said,) = caplog.messages
    assert said.startswith("GPU-a: GPM gives no SM activity: the driver does not let this user")
