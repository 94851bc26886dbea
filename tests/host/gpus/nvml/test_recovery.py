"""What the driver demands after an Xid, and GPUs that are outside of the NVLink fabric."""

from __future__ import annotations

import pytest
from pytest_mock import MockerFixture

from radrm.host.gpus.nvml import xids
from tests.host.gpus.nvml.driver import NOT_SUPPORTED, UNKNOWN, Chip
from tests.host.gpus.nvml.rounds import World

# ------------------------------------------------------------------ the driver's recovery action


@pytest.mark.parametrize("number", [46])
def test_no_fault_if_the_driver_demands_no_recovery(mocker: MockerFixture, number: int) -> None:
    chip, other = Chip(recovery=0), Chip(uuid="GPU-b", recovery=0)
    world = World(mocker, chip, other)
    world.driver.xid(chip, number)
    readings = world.read()
    assert readings["GPU-a"].fault is None
    (note,) = readings["GPU-a"].notes
    assert note.startswith(f"Xid {number}: ") and note.endswith("the driver demands no recovery")
    assert readings["GPU-b"].notes == ()
    chip.fails = {"nvmlDeviceGetFieldValues": UNKNOWN}
    assert world.one(after_s=11.0).fault is None, "it has said so"
    assert world.one(after_s=4000.0).notes == ()


@pytest.mark.parametrize("number", [48, 46])
def test_the_present_recovery_action_counts(mocker: MockerFixture, number: int) -> None:
    chip = Chip(recovery=0)
    world = World(mocker, chip)
    chip.recovery = 1  # not read yet: the condition is read every ten seconds
    world.driver.xid(chip, number)
    assert world.one().fault.startswith(f"Xid {number}: ")
    chip.recovery = 0
    ended = world.one(after_s=10.0).fault is None
    assert ended == (number in xids.RECOVERABLE)
    chip.recovery = 3
    world.driver.xid(chip, number)
    assert world.one().fault, "it has happened again"


def test_a_changed_recovery_action_is_read_at_once(mocker: MockerFixture) -> None:
    chip, other = Chip(recovery=0, ecc=7), Chip(uuid="GPU-b", recovery=1)
    world = World(mocker, chip, other)
    chip.recovery = 1
    other.recovery = 0
    assert (world.one().fault, world.read()["GPU-b"].fault is None) == (None, False)
    world.driver.xid(chip, 154)
    readings = world.read()
    assert readings["GPU-a"].fault and "must be reset" in readings["GPU-a"].fault
    assert all("154" not in note for note in readings["GPU-a"].notes)
    assert readings["GPU-b"].fault, "the other one is not asked again"
    world.driver.xid(chip, 48)
    assert world.one().fault
    chip.recovery, chip.ecc = 0, 0
    world.driver.xid(chip, 154)
    assert world.one().fault is None, "the error count shows that it was reset"


# ------------------------------------------------------------------ the NVLink fabric


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        ((1, 0), "its NVLink fabric is not ready (not started): CUDA may fail there (error 802); "),
        ((2, 0), "its NVLink fabric is not ready (in progress): CUDA may fail there (error 802); "),
        ((3, UNKNOWN), "its registration with the NVLink fabric failed (NVML error 999): CUDA may"),
    ],
)
def test_a_gpu_outside_the_fabric_takes_no_job(
    mocker: MockerFixture, fabric: tuple[int, int], words: str
) -> None:
    chip, other = Chip(fabric=fabric), Chip(uuid="GPU-b", fabric=(3, 0))
    world = World(mocker, chip, other)
    readings = world.read()
    assert words in readings["GPU-a"].fault
    assert readings["GPU-b"].fault is None
    chip.fabric = (3, 0)
    assert world.one(after_s=10.0).fault is None


@pytest.mark.parametrize("fabric", [None, (0, NOT_SUPPORTED), (2, NOT_SUPPORTED)])
@pytest.mark.parametrize("refused", [(), ("fabric_v3",), ("fabric_v3", "fabric_v2")])
def test_every_version_of_the_question(
    mocker: MockerFixture, fabric: tuple[int, int] | None, refused: tuple[str, ...]
) -> None:
    chip = Chip(fabric=fabric, fails=dict.fromkeys(refused, 25))
    reading = World(mocker, chip).one()
    assert (reading.fault is not None) == (fabric is not None and fabric[0] == 2)


def test_an_administrator_accepts_a_fabric_until_it_changes(mocker: MockerFixture) -> None:
    chip = Chip(fabric=(3, NOT_SUPPORTED))
    world = World(mocker, chip)
    world.driver.xid(chip, 48)
    fault = world.one().fault
    assert fault and fault.startswith("Xid 48")
    world.gpus.acknowledge("GPU-a")
    for after_s in (1.0, 10.0, 10.0):
        reading = world.one(after_s)
        assert reading.fault is None
        assert [note.endswith("an administrator has accepted this") for note in reading.notes] == [
            True
        ]
    chip.fabric = (2, 0)
    assert world.one(after_s=10.0).fault, "another fault"
    chip.fabric = (3, 0)
    assert world.one(after_s=10.0).fault is None
    world.gpus.acknowledge("GPU-a")
    world.one()
    chip.fabric = (3, NOT_SUPPORTED)
    assert world.one(after_s=10.0).fault, "nothing was there to accept"
