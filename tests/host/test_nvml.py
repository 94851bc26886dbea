"""The NVML edge: a table of situations, played by a driver that is mocked call by call."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import AttemptMemory, Device, DeviceKind, Instant, Reading
from radrm.errors import DeviceError
from radrm.host import nvml
from radrm.host.nvml import NvmlGpus, find

MIB = 1024 * 1024
AT = Instant(boot_s=10.0, wall_s=1000.0)
OWNERS = {101: (7, 1), 102: (7, 1), 201: (8, 2)}

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, NO_FUNCTION = 3, 4, 6, 13
LOST, RESET, MISMATCH, UNKNOWN = 15, 16, 18, 999


def process(pid: int, mib: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)


@dataclass
class Chip:
    """One GPU or MIG instance: its figures, and which calls fail with which error."""

    uuid: str | bytes = "GPU-a"
    name: str | bytes = "NVIDIA A100-SXM4-40GB"
    total: int = 40960 * MIB
    reserved: int = 600 * MIB
    used: int = 1000 * MIB
    busy: float = 50
    power_mw: float = 250_000
    compute: list[Any] = field(default_factory=list)
    mps: list[Any] = field(default_factory=list)
    slots: list[Chip | None] | None = None
    fails: dict[str, int] = field(default_factory=dict)


class Driver:
    """What the patched functions of `pynvml` answer."""

    def __init__(self, mocker: MockerFixture, *chips: Chip) -> None:
        self.chips = list(chips)
        self.fails: dict[str, int] = {}
        self.inits = self.shutdowns = 0
        handle_calls = {
            "nvmlDeviceGetUUID": lambda chip: chip.uuid,
            "nvmlDeviceGetName": lambda chip: chip.name,
            "nvmlDeviceGetUtilizationRates": lambda chip: SimpleNamespace(gpu=chip.busy),
            "nvmlDeviceGetPowerUsage": lambda chip: chip.power_mw,
            "nvmlDeviceGetMigMode": lambda chip: [int(chip.slots is not None)] * 2,
            "nvmlDeviceGetMaxMigDeviceCount": lambda chip: len(chip.slots),
            "nvmlDeviceGetMigDeviceHandleByIndex": self.instance,
            "nvmlDeviceGetMemoryInfo": self.memory,
        }
        for version in ("v2", "v3"):
            handle_calls |= {
                f"nvmlDeviceGetComputeRunningProcesses_{version}": lambda chip: chip.compute,
                f"nvmlDeviceGetMPSComputeRunningProcesses_{version}": lambda chip: chip.mps,
            }
        for name, answer in handle_calls.items():
            mocker.patch.object(pynvml, name, side_effect=self.on_chip(name, answer))
        library_calls = {
            "nvmlInit": self.init,
            "nvmlShutdown": self.shutdown,
            "nvmlDeviceGetCount": lambda: len(self.chips),
            "nvmlDeviceGetHandleByIndex": lambda index: self.chips[index],
            "nvmlDeviceGetHandleByUUID": self.by_uuid,
        }
        for name, answer in library_calls.items():
            mocker.patch.object(pynvml, name, side_effect=self.on_library(name, answer))

    def on_chip(self, name: str, answer: Any) -> Any:
        def call(chip: Chip, *rest: Any, **named: Any) -> Any:
            self.fail(self.fails, name)
            self.fail(chip.fails, name)
            return answer(chip, *rest, **named)

        return call

    def on_library(self, name: str, answer: Any) -> Any:
        def call(*given: Any) -> Any:
            self.fail(self.fails, name)
            return answer(*given)

        return call

    @staticmethod
    def fail(fails: dict[str, int], name: str) -> None:
        code = fails.get(name, fails.get("*"))
        if code is not None:
            raise pynvml.NVMLError(code)

    def init(self) -> None:
        self.inits += 1

    def shutdown(self) -> None:
        self.shutdowns += 1

    def by_uuid(self, uuid: str) -> Chip:
        every = [*self.chips, *(s for c in self.chips for s in c.slots or () if s)]
        for chip in every:
            if chip.uuid == uuid:
                return chip
        raise pynvml.NVMLError(NOT_FOUND)

    @staticmethod
    def instance(chip: Chip, slot: int) -> Chip:
        assert chip.slots is not None
        found = chip.slots[slot]
        if found is None:
            raise pynvml.NVMLError(NOT_FOUND)
        return found

    @staticmethod
    def memory(chip: Chip, version: int | None = None) -> Any:
        if version is None:  # version 1 counts the driver's own part as used
            return SimpleNamespace(total=chip.total, used=chip.used + chip.reserved)
        Driver.fail(chip.fails, "memory_v2")
        return SimpleNamespace(total=chip.total, used=chip.used, reserved=chip.reserved)


def read_one(chip: Chip, mocker: MockerFixture) -> Reading:
    Driver(mocker, chip)
    gpus = NvmlGpus(pynvml)
    (reading,) = gpus.read([str(chip.uuid)], AT, OWNERS.get)
    return reading


# ------------------------------------------------------------------ devices


def test_a_gpu(mocker: MockerFixture) -> None:
    Driver(mocker, Chip(), Chip(uuid="GPU-b"))
    first, second = NvmlGpus(pynvml).devices()
    assert first == Device("GPU-a", 0, "NVIDIA A100-SXM4-40GB", 40960, overhead_mib=600)
    assert (second.uuid, second.index) == ("GPU-b", 1)


def test_bytes_are_text(mocker: MockerFixture) -> None:
    Driver(mocker, Chip(uuid=b"GPU-a", name=b"NVIDIA A100"))
    (device,) = NvmlGpus(pynvml).devices()
    assert (device.uuid, device.name) == ("GPU-a", "NVIDIA A100")


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_FUNCTION, 25])
def test_an_old_driver_has_memory_version_1(mocker: MockerFixture, code: int) -> None:
    chip = Chip(fails={"memory_v2": code})
    Driver(mocker, chip)
    (device,) = NvmlGpus(pynvml).devices()
    assert (device.total_mib, device.overhead_mib) == (40960, 0)
    assert read_one(chip, mocker).used_mib == 1600


def test_a_driver_without_mig(mocker: MockerFixture) -> None:
    Driver(mocker, Chip(fails={"nvmlDeviceGetMigMode": NOT_SUPPORTED}))
    assert [d.kind for d in NvmlGpus(pynvml).devices()] == [DeviceKind.GPU]


def mig_gpu(*slots: Chip | None) -> Chip:
    return Chip(uuid="GPU-m", slots=list(slots))


def instance(uuid: str, profile: str) -> Chip:
    return Chip(
        uuid=uuid,
        name=f"NVIDIA A100-SXM4-40GB MIG {profile}",
        total=4864 * MIB,
        reserved=0,
        used=12 * MIB,
        fails={
            "nvmlDeviceGetUtilizationRates": NOT_SUPPORTED,
            "nvmlDeviceGetPowerUsage": NOT_SUPPORTED,
        },
    )


def test_mig_instances_stand_in_place_of_their_gpu(mocker: MockerFixture) -> None:
    mig = mig_gpu(instance("MIG-1", "1g.5gb"), None, instance("MIG-2", "1c.3g.20gb"))
    Driver(mocker, Chip(), mig)
    gpu, one, two = NvmlGpus(pynvml).devices()
    assert (gpu.uuid, gpu.kind) == ("GPU-a", DeviceKind.GPU)
    assert (one.uuid, one.kind, one.parent) == ("MIG-1", DeviceKind.MIG, "GPU-m")
    assert (one.profile, two.profile) == ("1g.5gb", "1c.3g.20gb")
    assert (one.index, two.index) == (1, 1)
    assert one.total_mib == 4864


def test_mig_without_instances_is_said(mocker: MockerFixture) -> None:
    Driver(mocker, mig_gpu(None, None))
    gpus = NvmlGpus(pynvml)
    assert gpus.devices() == ()
    assert "GPU 0: MIG is on and it has no instance" in gpus.problems[0]


def test_a_mig_instance_is_read_without_activity(mocker: MockerFixture) -> None:
    Driver(mocker, mig_gpu(instance("MIG-1", "1g.5gb")))
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    (reading,) = gpus.read(["MIG-1"], AT, OWNERS.get)
    assert reading == Reading("MIG-1", AT, used_mib=12)


# ------------------------------------------------------------------ readings


def test_a_reading(mocker: MockerFixture) -> None:
    reading = read_one(Chip(compute=[process(201, 900)]), mocker)
    assert reading == Reading(
        "GPU-a",
        AT,
        used_mib=1000,
        attempts=(AttemptMemory(8, 2, 900),),
        smact=0.5,
        smact_source="nvml-utilization",
        smact_coarse=True,
        power_w=250.0,
    )


PROCESSES = [
    # compute list, MPS list, expected memory of attempts
    ([], [], {}),
    ([(201, 900)], [], {(8, 2): 900}),
    ([], [(201, 900)], {(8, 2): 900}),
    ([(101, 300), (102, 400)], [], {(7, 1): 700}),
    ([(101, 300)], [(102, 400)], {(7, 1): 700}),
    ([(101, 300)], [(101, 300)], {(7, 1): 300}),
    ([(101, None)], [(101, 300)], {(7, 1): 300}),
    ([(101, 300)], [(101, None)], {(7, 1): 300}),
    ([(101, None)], [], {(7, 1): None}),
    ([(101, None), (102, 400)], [], {(7, 1): None}),
    ([(102, 400), (101, None)], [(201, 5)], {(7, 1): None, (8, 2): 5}),
    ([(999, 500)], [], {}),
    ([(101, 10**9)], [], {(7, 1): None}),
]


@pytest.mark.parametrize(("compute", "mps", "expected"), PROCESSES)
def test_whose_memory(mocker: MockerFixture, compute: Any, mps: Any, expected: Any) -> None:
    chip = Chip(compute=[process(*p) for p in compute], mps=[process(*p) for p in mps])
    attempts = read_one(chip, mocker).attempts
    assert {(a.job_id, a.attempt): a.used_mib for a in attempts} == expected


def test_an_old_driver_lists_processes_its_own_way(mocker: MockerFixture) -> None:
    fails = {
        "nvmlDeviceGetComputeRunningProcesses_v3": NO_FUNCTION,
        "nvmlDeviceGetMPSComputeRunningProcesses_v3": NO_FUNCTION,
        "nvmlDeviceGetMPSComputeRunningProcesses_v2": NO_FUNCTION,
    }
    chip = Chip(compute=[process(201, 900)], mps=[process(101, 1)], fails=fails)
    assert read_one(chip, mocker).attempts == (AttemptMemory(8, 2, 900),)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION])
@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("nvmlDeviceGetMemoryInfo", {"used_mib"}),
        ("nvmlDeviceGetUtilizationRates", {"smact", "smact_source"}),
        ("nvmlDeviceGetPowerUsage", {"power_w"}),
    ],
)
def test_what_a_device_does_not_offer_is_none(
    mocker: MockerFixture, call: str, missing: set[str], code: int
) -> None:
    reading = read_one(Chip(fails={call: code}), mocker)
    assert reading.error is None
    names = ("used_mib", "smact", "smact_source", "power_w")
    assert {name for name in names if getattr(reading, name) is None} == missing
    assert reading.smact_coarse is (reading.smact is not None)


@pytest.mark.parametrize(
    ("chip", "quantity"),
    [
        (Chip(busy=101), "smact"),
        (Chip(busy=-1), "smact"),
        (Chip(busy=math.nan), "smact"),
        (Chip(power_mw=math.nan), "power_w"),
        (Chip(power_mw=math.inf), "power_w"),
        (Chip(power_mw=-1), "power_w"),
        (Chip(power_mw=2**32 - 1), "power_w"),
        (Chip(used=40961 * MIB), "used_mib"),
        (Chip(used=2**64 - 1), "used_mib"),
    ],
)
def test_impossible_numbers_do_not_pass(mocker: MockerFixture, chip: Chip, quantity: str) -> None:
    reading = read_one(chip, mocker)
    assert reading.error is None
    assert getattr(reading, quantity) is None


def test_an_idle_gpu_reads_zero_and_not_none(mocker: MockerFixture) -> None:
    reading = read_one(Chip(used=0, busy=0, power_mw=0), mocker)
    assert (reading.used_mib, reading.smact, reading.power_w) == (0, 0.0, 0.0)


# ------------------------------------------------------------------ a device in trouble


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (LOST, ("lost", "reboot")),
        (RESET, ("must be reset", "gpu-reset")),
        (NOT_FOUND, ("does not know it",)),
        (10, ("did not answer in time",)),
        (UNKNOWN, ("Unknown Error",)),
    ],
)
def test_a_device_in_trouble_harms_no_other(
    mocker: MockerFixture, code: int, words: tuple[str, ...]
) -> None:
    broken = Chip(uuid="GPU-b")
    Driver(mocker, Chip(), broken, Chip(uuid="GPU-c"))
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    broken.fails = {"*": code}
    before, trouble, after = gpus.read(["GPU-a", "GPU-b", "GPU-c"], AT, OWNERS.get)
    assert (before.error, after.error) == (None, None)
    assert trouble == Reading("GPU-b", AT, error=trouble.error)
    assert trouble.error is not None
    assert f"(NVML error {code})" in trouble.error
    for word in words:
        assert word in trouble.error


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
    reading = read_one(Chip(compute=[process(201, 900)], fails={call: LOST}), mocker)
    assert reading == Reading("GPU-a", AT, error=reading.error)
    assert reading.error


def test_a_device_that_nobody_knows(mocker: MockerFixture) -> None:
    Driver(mocker, Chip())
    (reading,) = NvmlGpus(pynvml).read(["GPU-z"], AT, OWNERS.get)
    assert reading.error
    assert "does not know it" in reading.error


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


def test_a_gpu_lost_from_the_start_is_a_problem_and_no_device(mocker: MockerFixture) -> None:
    Driver(mocker, Chip(fails={"*": LOST}), Chip(uuid="GPU-b"))
    gpus = NvmlGpus(pynvml)
    assert [d.uuid for d in gpus.devices()] == ["GPU-b"]
    assert gpus.problems[0].startswith("GPU 0: the GPU is lost")


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


def test_a_vanished_mig_instance_is_not_listed(mocker: MockerFixture) -> None:
    mig = mig_gpu(instance("MIG-1", "1g.5gb"), instance("MIG-2", "1g.5gb"))
    Driver(mocker, mig)
    gpus = NvmlGpus(pynvml)
    assert len(gpus.devices()) == 2
    mig.slots = [None, instance("MIG-2", "1g.5gb")]
    assert [d.uuid for d in gpus.devices()] == ["MIG-2"]


def test_a_device_is_initialised_anew_after_trouble(mocker: MockerFixture) -> None:
    chip = Chip()
    driver = Driver(mocker, chip)
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    chip.fails = {"*": LOST}
    gpus.read(["GPU-a"], AT, OWNERS.get)
    chip.fails = {}
    assert gpus.read(["GPU-a"], AT, OWNERS.get)[0].used_mib == 1000
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
        (12, "install the NVIDIA driver"),
        (MISMATCH, "reboot the server"),
        (UNKNOWN, "look at nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_answer(mocker: MockerFixture, code: int, words: str) -> None:
    driver = Driver(mocker, Chip())
    driver.fails = {"*": code}
    gpus = NvmlGpus(pynvml)
    with pytest.raises(DeviceError, match=words):
        gpus.devices()
    with pytest.raises(DeviceError, match=rf"\(NVML error {code}\)"):
        gpus.read(["GPU-a"], AT, OWNERS.get)


@pytest.mark.parametrize("code", [1, 9, MISMATCH])
def test_a_driver_that_dies_under_us_and_comes_back(mocker: MockerFixture, code: int) -> None:
    driver = Driver(mocker, Chip())
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    driver.fails = {"*": code}
    for _ in range(2):
        with pytest.raises(DeviceError):
            gpus.read(["GPU-a"], AT, OWNERS.get)
    driver.fails = {}
    assert gpus.read(["GPU-a"], AT, OWNERS.get)[0].used_mib == 1000
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


# ------------------------------------------------------------------ find


def test_find(mocker: MockerFixture) -> None:
    Driver(mocker, Chip())
    found = find()
    assert found.gpus is not None
    assert found.reason is None
    assert len(found.gpus.devices()) == 1


def test_find_without_a_gpu(mocker: MockerFixture) -> None:
    driver = Driver(mocker)
    found = find()
    assert found.gpus is None
    assert found.reason == "the NVIDIA driver is there, and it finds no GPU"
    assert driver.shutdowns == 1


@pytest.mark.parametrize(
    ("code", "words"), [(12, "install"), (9, "modprobe"), (MISMATCH, "reboot")]
)
def test_find_without_a_driver(mocker: MockerFixture, code: int, words: str) -> None:
    Driver(mocker, Chip()).fails = {"nvmlInit": code}
    found = find()
    assert found.gpus is None
    assert found.reason is not None
    assert words in found.reason


def test_find_with_a_broken_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = find()
    assert found.gpus is None
    assert found.reason is not None
    assert "nvidia-ml-py cannot be imported" in found.reason


def test_the_numbers_are_nvmls_own() -> None:
    for name in ("NOT_SUPPORTED", "NO_PERMISSION", "NOT_FOUND", "TIMEOUT", "RESET_REQUIRED"):
        assert getattr(nvml, f"_{name}") == getattr(pynvml, f"NVML_ERROR_{name}")
    for name in ("UNINITIALIZED", "INVALID_ARGUMENT", "DRIVER_NOT_LOADED", "GPU_IS_LOST"):
        assert getattr(nvml, f"_{name}") == getattr(pynvml, f"NVML_ERROR_{name}")
    for name in ("LIBRARY_NOT_FOUND", "FUNCTION_NOT_FOUND", "GPU_NOT_FOUND"):
        assert getattr(nvml, f"_{name}") == getattr(pynvml, f"NVML_ERROR_{name}")
    assert pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH == nvml._LIBRARY_MISMATCH
    assert pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH == nvml._ARGUMENT_VERSION
