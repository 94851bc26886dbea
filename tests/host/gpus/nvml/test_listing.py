"""The NVML edge: what devices are listed and what their readings say, as a table."""

from __future__ import annotations

import math
import sys
from typing import Any

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import AttemptMemory, Device, DeviceProcess, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.host.gpus.nvml import NvmlGpus, find
from radrm.host.gpus.nvml import library as words
from radrm.host.gpus.source import NO_PROCESS_LIST
from tests.host.gpus.nvml.driver import (
    MIB,
    MISMATCH,
    NO_FUNCTION,
    NO_PERMISSION,
    NOT_SUPPORTED,
    Chip,
    Driver,
    instance,
    listed,
    mig_gpu,
    process,
)

AT = Instant(boot_s=10.0, wall_s=1000.0)
OWNERS = {101: (7, 1), 102: (7, 1), 201: (8, 2)}


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


def test_the_numbers_of_device_files(mocker: MockerFixture) -> None:
    """The minor number is no index, and an instance is used through the file of its GPU."""
    parent = mig_gpu(instance("MIG-a", "1g.5gb"))
    parent.minor = 5
    Driver(mocker, Chip(minor=7), parent, Chip(uuid="GPU-old"))
    found = [(d.minor, d.instance) for d in NvmlGpus(pynvml).devices()]
    assert found == [(7, None), (5, (7, 0)), (None, None)]


def test_bytes_are_text(mocker: MockerFixture) -> None:
    Driver(mocker, Chip(uuid=b"GPU-a", name=b"NVIDIA A100"))
    (device,) = NvmlGpus(pynvml).devices()
    assert (device.uuid, device.name) == ("GPU-a", "NVIDIA A100")


def test_a_driver_without_mig(mocker: MockerFixture) -> None:
    Driver(mocker, Chip(fails={"nvmlDeviceGetMigMode": NOT_SUPPORTED}))
    assert [d.kind for d in NvmlGpus(pynvml).devices()] == [DeviceKind.GPU]


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
    assert "GPU 0: MIG is on, but it has no instance" in gpus.problems[0]


# ------------------------------------------------------------------ readings


WHOLE_GPU_ONLY = (
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetProcessUtilization",
)
INVALID_ARGUMENT = 2


@pytest.mark.parametrize("code", [INVALID_ARGUMENT, 999])
@pytest.mark.parametrize("named", [True, False])
def test_a_mig_instance_is_not_asked_what_only_a_gpu_knows(
    mocker: MockerFixture, code: int, named: bool
) -> None:
    """What drivers answer there differs, so nothing may depend on it. `named`: with its GPU."""
    one = instance("MIG-1", "1g.5gb")
    driver = Driver(mocker, mig_gpu(one))
    gpus = NvmlGpus(pynvml)
    if named:
        gpus.devices()
    one.fails = dict.fromkeys(WHOLE_GPU_ONLY, code)
    if not named:
        one.fails["nvmlDeviceGetDeviceHandleFromMigDeviceHandle"] = NOT_SUPPORTED
    for _ in range(2):
        (reading,) = gpus.read(["MIG-1"], AT, lambda pid: (pid, 1))
        assert (reading.error, reading.used_mib, reading.power_w) == (None, 12, None)
    assert not set(WHOLE_GPU_ONLY) & set(driver.calls)


def test_a_mig_instance_whose_lists_the_driver_refuses(mocker: MockerFixture) -> None:
    """Its processes are those of the GPU's list, and only they are in question."""
    one = instance("MIG-1", "1g.5gb")
    lists = [
        f"nvmlDeviceGet{k}RunningProcesses_{v}"
        for k in ("Compute", "MPSCompute")
        for v in ("v2", "v3")
    ]
    one.fails = dict.fromkeys(lists, INVALID_ARGUMENT)
    gpu = mig_gpu(one)
    gpu.compute = [process(201, 900, 7, 0), process(202, 800, 8, 0)]
    gpus = listed(mocker, gpu)
    (reading,) = gpus.read(["MIG-1"], AT, lambda pid: (pid, 1))
    assert reading.attempts == (AttemptMemory(201, 1, 900),)
    gpu.compute = None
    (reading,) = gpus.read(["MIG-1"], AT, lambda pid: (pid, 1))
    assert (reading.error, reading.attempts) == (None, None)
    one.fails = {"nvmlDeviceGetMemoryInfo": INVALID_ARGUMENT}
    (reading,) = gpus.read(["MIG-1"], AT, lambda pid: (pid, 1))
    assert reading.error and "no longer knows it" in reading.error, "here it means: it is gone"


def test_a_driver_without_lists_of_processes(mocker: MockerFixture) -> None:
    """As on WSL2, a Jetson and some vGPUs: this is not the same as no process."""
    chip = Chip(compute=None, used=9000 * MIB)
    gpus = listed(mocker, chip)
    (reading,) = gpus.read(["GPU-a"], AT, lambda pid: (7, 1))
    assert (reading.attempts, reading.unmanaged, reading.used_mib) == (None, (), 9000)
    assert reading.notes == (NO_PROCESS_LIST,)
    chip.compute = []
    (reading,) = gpus.read(["GPU-a"], AT, lambda pid: (7, 1))
    assert (reading.attempts, reading.notes) == ((), ())


def test_a_reading(mocker: MockerFixture) -> None:
    reading = read_one(Chip(compute=[process(201, 900)]), mocker)
    assert reading == Reading(
        "GPU-a",
        AT,
        used_mib=1000,
        attempts=(AttemptMemory(8, 2, 900),),
        processes=(DeviceProcess(201, 900, attempt=(8, 2)),),
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
    assert {(a.job_id, a.serial): a.used_mib for a in attempts} == expected


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


# ------------------------------------------------------------------ find


def test_find_without_a_gpu(mocker: MockerFixture) -> None:
    driver = Driver(mocker)
    found = find()
    assert found.gpus is None
    assert found.reason == "the NVIDIA driver is loaded, but it finds no GPU"
    assert driver.shutdowns == 1


@pytest.mark.parametrize(
    ("code", "words"), [(12, "install"), (9, "modprobe"), (MISMATCH, "reboot")]
)
def test_find_without_a_driver(mocker: MockerFixture, code: int, words: str) -> None:
    Driver(mocker, Chip()).fails = {"nvmlInit": code}
    found = find()
    assert found.gpus is None
    assert words in found.reason


def test_find_with_a_broken_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = find()
    assert found.gpus is None
    assert "nvidia-ml-py cannot be imported" in found.reason


def test_the_numbers_are_nvmls_own() -> None:
    other_names = {
        "LIBRARY_MISMATCH": "LIB_RM_VERSION_MISMATCH",
        "ARGUMENT_VERSION": "ARGUMENT_VERSION_MISMATCH",
    }
    numbers = {
        name: value for name, value in vars(words).items() if type(value) is int and value < 99
    }
    assert len(numbers) == 14
    for name, value in numbers.items():
        assert value == getattr(pynvml, f"NVML_ERROR_{other_names.get(name, name)}")


@pytest.mark.parametrize(
    ("cores", "capability", "mhz", "found"),
    [
        (6912, (8, 0), 1410, (108, 1410)),
        (16896, (9, 0), 1980, (132, 1980)),
        (2560, (7, 5), 1590, (40, 1590)),
        # A compute capability that is not known here, and figures that cannot be.
        (6912, (99, 0), 1410, (None, None)),
        (6913, (8, 0), 1410, (None, None)),
        (0, (8, 0), 1410, (None, None)),
        (6912, (8, 0), 0, (None, None)),
        (6912, (8, 0), 99_999, (None, None)),
        (None, (8, 0), 1410, (None, None)),
        (6912, None, 1410, (None, None)),
        (6912, (8, 0), None, (None, None)),
    ],
)
def test_the_sms_and_their_clock(
    cores: int | None,
    capability: tuple[int, int] | None,
    mhz: int | None,
    found: tuple[int | None, int | None],
    mocker: MockerFixture,
) -> None:
    part = instance("MIG-a", "3g.20gb")
    part.cores, part.capability, part.mhz = cores, capability, mhz
    Driver(mocker, Chip(cores=cores, capability=capability, mhz=mhz), mig_gpu(part))
    whole, cut = NvmlGpus(pynvml).devices()
    assert (whole.sms, whole.sm_mhz) == found
    assert (cut.sms, cut.sm_mhz) == (None, None)
