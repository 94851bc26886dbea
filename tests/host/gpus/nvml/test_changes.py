"""The NVML edge while things change under it: MIG is cut anew, calls hang, threads close."""

from __future__ import annotations

from collections.abc import Callable

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import AttemptMemory, DeviceProcess, Instant, Reading
from radrm.host.gpus.nvml import NvmlGpus
from tests.host.gpus.nvml.driver import (
    NO_FUNCTION,
    NO_INSTANCE,
    NOT_SUPPORTED,
    UNKNOWN,
    Chip,
    Driver,
    instance,
    listed,
    mig_gpu,
    process,
)

OWNERS = {101: (7, 1), 102: (8, 1)}
NOBODY = 4_194_304  # no pid is as high as this


def read(gpus: NvmlGpus, *uuids: str, at_s: float = 10.0) -> tuple[Reading, ...]:
    return gpus.read(uuids, Instant(at_s, at_s), OWNERS.get)


# ------------------------------------------------------------------ MIG is cut anew


def cut_mig_on(gpu: Chip, other: Chip) -> None:
    gpu.slots = [instance("MIG-1", "1g.5gb")]


def cut_mig_off(gpu: Chip, other: Chip) -> None:
    other.slots = None


def destroy(gpu: Chip, other: Chip) -> None:
    other.slots = [None, None]


def create(gpu: Chip, other: Chip) -> None:
    other.slots = [*other.slots, instance("MIG-9", "1g.5gb")]


def swap(gpu: Chip, other: Chip) -> None:
    other.slots = [instance("MIG-9", "1g.5gb"), None]


@pytest.mark.parametrize("change", [cut_mig_on, cut_mig_off, destroy, create, swap])
def test_other_devices_are_noticed_within_ten_seconds(
    mocker: MockerFixture, change: Callable[[Chip, Chip], None]
) -> None:
    gpu, other = Chip(), mig_gpu(instance("MIG-2", "1g.5gb"), None)
    Driver(mocker, gpu, other)
    gpus = NvmlGpus(pynvml)
    before = gpus.devices()
    read(gpus, "GPU-a", at_s=10.0)
    assert not gpus.changed
    change(gpu, other)
    read(gpus, "GPU-a", at_s=20.0)
    assert gpus.changed
    assert gpus.devices() != before
    assert not gpus.changed
    read(gpus, "GPU-a", at_s=30.0)
    assert not gpus.changed


def test_a_gpu_that_comes_or_goes_is_noticed(mocker: MockerFixture) -> None:
    driver = Driver(mocker, Chip(), Chip(uuid="GPU-b"))
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    driver.chips.append(Chip(uuid="GPU-c"))
    read(gpus, "GPU-a")
    assert gpus.changed


def test_a_destroyed_instance_is_noticed_by_its_reading(mocker: MockerFixture) -> None:
    gpu = mig_gpu(instance("MIG-1", "1g.5gb"), instance("MIG-2", "1g.5gb"))
    gpus = listed(mocker, gpu)
    read(gpus, "MIG-1", "MIG-2")
    assert gpu.slots[0] is not None
    gpu.slots[0].fails = {"*": 2}  # its handle is stale
    gpu.slots[0] = None
    gone, there = read(gpus, "MIG-1", "MIG-2", at_s=11.0)
    assert gone.error and "no longer knows it" in gone.error
    assert there.error is None
    assert gpus.changed
    assert [d.uuid for d in gpus.devices()] == ["MIG-2"]


def test_who_asks_for_what_is_gone_for_ever_is_told_once(mocker: MockerFixture) -> None:
    gpus = listed(mocker, Chip())
    read(gpus, "GPU-z")
    assert gpus.changed
    gpus.devices()
    assert read(gpus, "GPU-z")[0].error
    assert not gpus.changed


def test_a_gpu_that_could_not_be_listed_and_now_can(mocker: MockerFixture) -> None:
    broken = Chip(uuid="GPU-b", fails={"nvmlDeviceGetName": UNKNOWN})
    driver = Driver(mocker, Chip(), broken)
    gpus = NvmlGpus(pynvml)
    driver.fails = {}
    assert [d.uuid for d in gpus.devices()] == ["GPU-a"]
    broken.fails = {}
    read(gpus, "GPU-a")
    assert gpus.changed
    assert len(gpus.devices()) == 2


# ------------------------------------------------------------------ processes of MIG instances


def mib_of(reading: Reading) -> dict[int, int | None]:
    return {a.job_id: a.used_mib for a in reading.attempts}


def test_processes_of_an_instance(mocker: MockerFixture) -> None:
    one, two = instance("MIG-1", "1g.5gb"), instance("MIG-2", "1g.5gb")
    gpu = mig_gpu(one, two)
    # A driver that answers for the whole GPU, through whichever handle it is asked.
    one.compute = two.compute = [process(101, 300, 7, 0), process(102, 400, 8, 0)]
    gpus = listed(mocker, gpu)
    assert [mib_of(r) for r in read(gpus, "MIG-1", "MIG-2")] == [{7: 300}, {8: 400}]


def test_instances_of_a_driver_that_numbers_none(mocker: MockerFixture) -> None:
    one = instance("MIG-1", "1g.5gb")
    mig_gpu(one)
    one.compute = [process(101, 300, NO_INSTANCE, NO_INSTANCE)]
    gpus = listed(mocker, one.parent or one)
    assert mib_of(read(gpus, "MIG-1")[0]) == {7: 300}


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_FUNCTION])
def test_instances_of_a_driver_that_lists_for_whole_gpus_only(
    mocker: MockerFixture, code: int
) -> None:
    one, two = instance("MIG-1", "1g.5gb"), instance("MIG-2", "1g.5gb")
    gpu = mig_gpu(one, two)
    calls = [
        f"nvmlDeviceGet{kind}RunningProcesses_{version}"
        for kind in ("Compute", "MPSCompute")
        for version in ("v2", "v3")
    ]
    for chip in (one, two):
        chip.fails |= dict.fromkeys(calls, code)
    gpu.compute = [process(101, 300, 7, 0), process(NOBODY, 50, 7, 0), process(102, 1)]
    gpu.mps = [process(102, 400, 8, 0), process(102, 9, 8, 1)]
    gpus = listed(mocker, gpu)
    first, second = read(gpus, "MIG-1", "MIG-2")
    assert (mib_of(first), mib_of(second)) == ({7: 300}, {8: 400})
    assert first.unmanaged == (DeviceProcess(NOBODY, 50),)


def test_an_instance_that_is_asked_for_by_its_name_alone(mocker: MockerFixture) -> None:
    one = instance("MIG-1", "1g.5gb")
    one.compute = [process(101, 300, 7, 0), process(102, 400, 8, 0)]
    Driver(mocker, mig_gpu(one))
    (reading,) = read(NvmlGpus(pynvml), "MIG-1")
    assert mib_of(reading) == {7: 300}


# ------------------------------------------------------------------ unmanaged processes


def test_processes_of_nobody_are_unmanaged(mocker: MockerFixture) -> None:
    chip = Chip(compute=[process(101, 300), process(NOBODY, 70)], mps=[process(NOBODY, 90)])
    Driver(mocker, chip)
    (reading,) = read(NvmlGpus(pynvml), "GPU-a")
    assert reading.attempts == (AttemptMemory(7, 1, 300),)
    assert reading.unmanaged == (DeviceProcess(NOBODY, 90),)


def test_what_only_draws_is_asked_for_where_memory_has_no_process(mocker: MockerFixture) -> None:
    """A display is named, and a job that renders has its memory; what does both counts once."""
    drawing = [process(NOBODY, 500), process(102, 200), process(101, 300)]
    chip = Chip(compute=[process(101, 300)], drawing=drawing, used=1000 << 20)
    Driver(mocker, chip)
    (reading,) = read(NvmlGpus(pynvml), "GPU-a")
    assert mib_of(reading) == {7: 300, 8: 200}
    assert reading.unmanaged == (DeviceProcess(NOBODY, 500),)
    chip.used = 400 << 20
    (reading,) = read(NvmlGpus(pynvml), "GPU-a")
    assert (mib_of(reading), reading.unmanaged) == ({7: 300}, ())


def test_a_package_whose_functions_do_not_fit_the_driver(mocker: MockerFixture) -> None:
    Driver(mocker, Chip(compute=[process(101, 300)]))
    mocker.patch.object(
        pynvml,
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        side_effect=pynvml.NVMLLibraryMismatchError("no match"),
    )
    (reading,) = read(NvmlGpus(pynvml), "GPU-a")
    assert (reading.error, mib_of(reading)) == (None, {7: 300})


def test_an_old_package_lacks_functions(mocker: MockerFixture) -> None:
    Driver(mocker, Chip())
    for name in dir(pynvml):
        if name.startswith(("nvmlEvent", "nvmlGpm", "nvmlDeviceGetTotal")):
            mocker.patch.object(pynvml, name)
            delattr(pynvml, name)
    gpus = NvmlGpus(pynvml)
    assert len(gpus.devices()) == 1
    (reading,) = read(gpus, "GPU-a")
    assert (reading.error, reading.used_mib, reading.power_w) == (None, 1000, 250.0)


# ------------------------------------------------------------------ what it costs


def test_a_round_asks_little(mocker: MockerFixture) -> None:
    """Eight GPUs every second; each call can cost the driver a fraction of a millisecond."""
    few = 100 << 20
    driver = Driver(mocker, *(Chip(uuid=f"GPU-{n}", energy_mj=n, used=few) for n in range(8)))
    gpus = NvmlGpus(pynvml)
    uuids = [device.uuid for device in gpus.devices()]
    read(gpus, *uuids, at_s=10.0)
    for chip in driver.chips:
        chip.energy_mj = 100_000
    driver.calls.clear()
    read(gpus, *uuids, at_s=11.0)
    assert len(driver.calls) == 8 * 5 + 1
    assert len(set(driver.calls)) == 6
