"""Broken GPUs, as the driver tells of them: Xids, memory errors, heat, resets."""

from __future__ import annotations

import logging
from typing import Any

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import Instant
from radrm.errors import DeviceError
from radrm.host.gpus.nvml import NvmlGpus, xids
from tests.host.gpus.nvml.driver import (
    LOST,
    NOT_SUPPORTED,
    RESET,
    UNKNOWN,
    Chip,
    Driver,
    instance,
    mig_gpu,
)
from tests.host.gpus.nvml.rounds import World

HEALTH_CALLS = (
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpuFabricInfoV",
)


# ------------------------------------------------------------------ Xids


def test_each_fault_stays_and_is_of_one_gpu_and_no_programs_error_is_one(
    mocker: MockerFixture,
) -> None:
    numbers = sorted(xids.FAULTS) + sorted(xids.APPLICATION)
    chips = {number: Chip(uuid=f"GPU-{number}") for number in numbers}
    world = World(mocker, Chip(), *chips.values())
    for number, chip in chips.items():
        world.driver.xid(chip, number)
    for after_s in (1.0, 10.0, 100_000.0):
        readings = world.read(after_s)
        for number in numbers:
            fault = readings[f"GPU-{number}"].fault
            assert readings[f"GPU-{number}"].error is None
            if number in xids.FAULTS:
                assert fault.startswith(f"Xid {number}: ")
                assert "reboot the server" in fault, "the next step"
            else:
                assert (fault, readings[f"GPU-{number}"].notes) == (None, ())
        assert (readings["GPU-a"].fault, readings["GPU-a"].notes) == (None, ())


def test_another_xid_is_a_note_for_an_hour(mocker: MockerFixture) -> None:
    chip = Chip()
    world = World(mocker, chip)
    world.driver.xid(chip, 94)
    reading = world.one()
    assert reading.fault is None
    assert reading.notes == ("the driver has reported Xid 94; see dmesg",)
    assert world.one(after_s=3000).notes == reading.notes
    assert world.one(after_s=3000).notes == ()


def test_the_gravest_of_several_is_told_first(mocker: MockerFixture) -> None:
    chip = Chip()
    world = World(mocker, chip)
    for number in (62, 48, 62, 79):
        world.driver.xid(chip, number)
    fault = world.one().fault
    assert fault.startswith("Xid 79: ")
    assert fault.endswith("(also Xid 48, 62)")


def test_a_storm_is_bounded_and_logged_once(
    mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    chip = Chip()
    world = World(mocker, chip)
    for _ in range(1000):
        world.driver.xid(chip, 94)
    with caplog.at_level(logging.WARNING, logger="radrm"):
        world.one()
        assert len(world.driver.xids) >= 900, "one round takes a part of them only"
        for _ in range(20):
            world.one()
    (note,) = world.one().notes
    assert [r.getMessage() for r in caplog.records] == [f"GPU-a: {note}"]
    assert world.driver.xids == []


def test_a_fault_of_an_instance_is_that_instances(mocker: MockerFixture) -> None:
    gpu = mig_gpu(instance("MIG-1", "1g.5gb"), instance("MIG-2", "1g.5gb"))
    world = World(mocker, gpu)
    world.driver.xid(gpu, 95, instance=8)
    faults = {uuid: reading.fault is not None for uuid, reading in world.read().items()}
    assert faults == {"MIG-1": False, "MIG-2": True}
    world.driver.xid(gpu, 79)
    assert all(reading.fault for reading in world.read().values()), "all of the GPU"


def test_an_xid_of_a_gpu_that_has_no_name_any_more(mocker: MockerFixture) -> None:
    lost = Chip(uuid="GPU-b")
    world = World(mocker, Chip(), lost)
    world.driver.xid(lost, 79)
    lost.fails = {"*": LOST}
    readings = world.read()
    assert "lost" in readings["GPU-b"].error
    assert readings["GPU-a"].fault is None, "it may be the other one's"
    assert "the driver cannot say of which GPU" in readings["GPU-a"].notes[0]


@pytest.mark.parametrize(
    "fails",
    [
        {"nvmlEventSetCreate": UNKNOWN},
        {"nvmlDeviceRegisterEvents": NOT_SUPPORTED},
        {"nvmlEventSetWait_v2": LOST},
        {"nvmlEventSetWait_v2": UNKNOWN},
    ],
)
def test_readings_go_on_where_there_are_no_events(
    mocker: MockerFixture, fails: dict[str, int]
) -> None:
    driver = Driver(mocker, Chip())
    driver.fails = fails
    gpus = NvmlGpus(pynvml)
    for boot_s in (1.0, 2.0):
        (reading,) = gpus.read(["GPU-a"], Instant(boot_s, boot_s), lambda pid: None)
        assert (reading.error, reading.fault, reading.used_mib) == (None, None, 1000)


def test_a_pending_remap_takes_no_gpu_out_of_service(mocker: MockerFixture) -> None:
    chip = Chip(remapped=(0, 1, 0, 0))
    world = World(mocker, chip)
    world.driver.xid(chip, 63)
    chip.remapped = (0, 2, 1, 0)
    reading = world.one(after_s=10.0)
    assert reading.fault is None
    assert (
        reading.notes[0] == "Xid 63: bad GPU memory is remapped at the next reset; jobs can go on"
    )
    assert reading.notes[1].startswith("reset pending: ")
    assert len(world.one(after_s=4000.0).notes) == 1, "only what the driver still says"


# ------------------------------------------------------------------ when a fault is over


def faulty(world: World, chip: Chip) -> None:
    world.driver.xid(chip, 48)
    assert world.one().fault


def test_somebody_acknowledges(mocker: MockerFixture) -> None:
    chip, other = Chip(), Chip(uuid="GPU-b")
    world = World(mocker, chip, other)
    faulty(world, chip)
    world.driver.xid(other, 48)
    world.gpus.acknowledge("GPU-a")
    readings = world.read()
    assert readings["GPU-a"].fault is None
    assert readings["GPU-b"].fault


def test_acknowledging_an_instance_is_for_its_gpu(mocker: MockerFixture) -> None:
    gpu = mig_gpu(instance("MIG-1", "1g.5gb"))
    world = World(mocker, gpu)
    faulty(world, gpu)
    before = list(world.driver.calls)
    world.gpus.acknowledge("MIG-1")
    assert world.driver.calls == before, "the driver may hang"
    assert world.one().fault is None


@pytest.mark.parametrize("code", [LOST, RESET])
def test_a_gpu_that_comes_back_has_been_reset(mocker: MockerFixture, code: int) -> None:
    chip = Chip()
    world = World(mocker, chip)
    faulty(world, chip)
    chip.fails = {"*": code}
    assert world.one().error
    chip.fails = {}
    reading = world.one()
    assert (reading.error, reading.fault) == (None, None)


def test_another_error_is_no_reset(mocker: MockerFixture) -> None:
    chip = Chip()
    world = World(mocker, chip)
    faulty(world, chip)
    chip.fails = {"*": UNKNOWN}
    assert world.one().error
    chip.fails = {}
    assert world.one().fault


@pytest.mark.parametrize("figure", ["energy_mj", "ecc"])
def test_counters_that_begin_anew_tell_of_a_reset(mocker: MockerFixture, figure: str) -> None:
    chip = Chip(**{figure: 5_000_000})
    world = World(mocker, chip)
    faulty(world, chip)
    setattr(chip, figure, 0)
    assert world.one(after_s=11.0).fault is None
    world.driver.xid(chip, 48)
    assert world.one(after_s=11.0).fault, "and what comes later counts"


def test_what_is_reported_after_the_reset_is_kept(mocker: MockerFixture) -> None:
    chip = Chip(energy_mj=5_000_000)
    world = World(mocker, chip)
    chip.energy_mj = 0
    world.driver.xid(chip, 48)
    assert world.one().fault


def test_a_driver_that_was_unloaded_knows_no_fault(mocker: MockerFixture) -> None:
    chip = Chip()
    world = World(mocker, chip)
    faulty(world, chip)
    world.driver.fails = {"*": 9}
    with pytest.raises(DeviceError):
        world.read()
    world.driver.fails = {}
    assert world.one().fault is None


def test_a_new_connection_keeps_the_fault_and_listens_anew(mocker: MockerFixture) -> None:
    chip = Chip()
    world = World(mocker, chip)
    faulty(world, chip)
    world.gpus.close()
    assert world.driver.event_sets == 0
    world.driver.watched.clear()
    assert world.one().fault
    assert world.driver.watched == ["GPU-a"]
    assert world.driver.event_sets == 1
    world.gpus.close()
    assert world.driver.event_sets == 0


# ------------------------------------------------------------------ how it is

NOTES: list[tuple[dict[str, Any], str]] = [
    ({"ecc": 3}, "uncorrected memory errors (ECC): 3 since the driver was loaded; "),
    ({"remapped": (0, 1, 1, 0)}, "reset pending: "),
    ({"retiring": 1}, "reset pending: "),
    ({"remapped": (0, 9, 0, 1)}, "bad memory could not be remapped; have the GPU replaced"),
    ({"slowed": 0x20, "celsius": 88}, "slowed down by heat (88 C); "),
    ({"slowed": 0x40}, "slowed down by heat; "),
    ({"slowed": 0x80}, "slowed down by the server's power brake; "),
    ({"celsius": 90, "limit": 90}, "hot (90 C): it slows down from 90 C on; "),
]


def test_notes(mocker: MockerFixture) -> None:
    chips = [Chip(uuid=f"GPU-{n}", **figures) for n, (figures, _) in enumerate(NOTES)]
    readings = World(mocker, *chips).read().values()
    for reading, (_, words) in zip(readings, NOTES, strict=True):
        assert reading.fault is None
        assert len(reading.notes) == 1
        assert reading.notes[0].startswith(words)


WELL: list[dict[str, Any]] = [
    {},
    {"ecc": 0, "remapped": (5, 0, 0, 0), "retiring": 0, "recovery": 0},
    {"slowed": 0x1 | 0x4, "celsius": 70, "limit": 90},  # idle, at its power limit
    {"celsius": 70, "limit": 0},
]


def test_nothing_to_note(mocker: MockerFixture) -> None:
    chips = [Chip(uuid=f"GPU-{n}", **figures) for n, figures in enumerate(WELL)]
    for reading in World(mocker, *chips).read().values():
        assert (reading.fault, reading.notes) == (None, ())


def test_growing_errors_are_told_so(mocker: MockerFixture) -> None:
    chip = Chip(ecc=3)
    world = World(mocker, chip)
    assert "growing" not in world.one().notes[0]
    chip.ecc = 5
    (note,) = world.one(after_s=10.0).notes
    assert note.startswith("uncorrected memory errors (ECC): 5 since the driver was loaded, and gr")


@pytest.mark.parametrize(
    ("action", "words"),
    [(1, "must be reset"), (2, "rebooted"), (4, "drained and reset"), (6, "reset"), (7, "reboot")],
)
def test_what_the_driver_wants_done_is_a_fault(
    mocker: MockerFixture, action: int, words: str
) -> None:
    chip = Chip(recovery=action)
    world = World(mocker, chip)
    assert words in world.one().fault
    chip.recovery = 0
    assert world.one(after_s=10.0).fault is None


def test_what_concerns_the_links_between_gpus_is_none(mocker: MockerFixture) -> None:
    chips = [Chip(uuid=f"GPU-{action}", recovery=action) for action in (3, 5, 99)]
    assert [r.fault for r in World(mocker, *chips).read().values()] == [None] * 3


def test_an_error_there_spoils_no_reading(mocker: MockerFixture) -> None:
    codes = (NOT_SUPPORTED, UNKNOWN, LOST)
    ways = [(call, code) for call in HEALTH_CALLS for code in codes]
    chips = [Chip(uuid=f"GPU-{n}", fails=dict([way])) for n, way in enumerate(ways)]
    for reading in World(mocker, *chips).read().values():
        assert (reading.error, reading.fault, reading.used_mib) == (None, None, 1000)


def test_instances_share_the_condition_of_their_gpu(mocker: MockerFixture) -> None:
    gpu = mig_gpu(instance("MIG-1", "1g.5gb"), instance("MIG-2", "1g.5gb"))
    gpu.retiring = 1
    world = World(mocker, gpu)
    assert all(len(reading.notes) == 1 for reading in world.read().values())
    assert world.driver.calls.count("nvmlDeviceGetRetiredPagesPendingStatus") == 1


def test_it_is_asked_every_ten_seconds(mocker: MockerFixture) -> None:
    world = World(mocker, Chip())
    world.driver.calls.clear()
    for _ in range(30):
        world.read()
    for call in HEALTH_CALLS:
        assert world.driver.calls.count(call) == 3
