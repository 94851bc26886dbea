"""Two compute instances in one GPU instance: their memory is one, and is promised once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from radrm.config import ReadingsConfig
from radrm.core.records import AttemptMemory, Device, DeviceProcess, Reading
from radrm.core.words import DeviceKind, JobState
from radrm.host.gpus.readings import ComputeInstances, open_gpus
from radrm.structs import replace
from tests.host.gpus.sources import AT
from tests.standins.nvml_library import Nvml
from tests.world import GIB, World

WHOLE_MIB = 20 * GIB
NOTE = "2 compute instances share the memory of one GPU instance: equal parts count"


def instance(uuid: str, numbers: tuple[int, int] | None, parent: str = "GPU-0") -> Device:
    name, kind = "A100 MIG 1c.3g.20gb", DeviceKind.MIG
    return Device(uuid, 0, name, WHOLE_MIB, kind, overhead_mib=101, parent=parent, instance=numbers)


def divided(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    return ComputeInstances().listed(devices)


ONE, TWO = instance("MIG-1", (1, 0)), instance("MIG-2", (1, 1))
PAIR = divided((ONE, TWO))


def separated(
    readings: tuple[Reading, ...], devices: tuple[Device, ...] = (ONE, TWO)
) -> tuple[Reading, ...]:
    stage = ComputeInstances()
    stage.listed(devices)
    return stage.read(readings)


def in_use(device: Device, used: int | None, own: int | None = None, others: int = 0) -> Reading:
    """A reading of the GPU instance's memory, by one of its compute instances."""
    attempts = () if own is None else (AttemptMemory(7, 1, own),)
    unmanaged = (DeviceProcess(99, others),) if others else ()
    uuid = device.uuid
    return Reading(uuid, AT, used, attempts=attempts, processes=unmanaged, smact=0.5)


@pytest.mark.parametrize(
    "apart",
    [
        instance("MIG-2", (2, 0)),
        instance("MIG-2", (1, 1), "GPU-1"),
        instance("MIG-2", None),
        Device("GPU-3", 3, "A100", WHOLE_MIB),
    ],
    ids=["another instance", "another GPU", "unknown numbers", "a whole GPU"],
)
def test_who_has_a_memory_of_its_own_keeps_it(apart: Device) -> None:
    devices = (ONE, apart)
    assert divided(devices) == devices
    readings = (in_use(ONE, 900, 900), in_use(apart, 0))
    assert separated(readings, devices) == readings


def test_each_has_an_equal_part() -> None:
    assert [(d.total_mib, d.overhead_mib) for d in PAIR] == [(WHOLE_MIB // 2, 51)] * 2
    three = divided((ONE, TWO, instance("MIG-3", (1, 2))))
    assert sum(device.total_mib for device in three) <= WHOLE_MIB


@pytest.mark.parametrize(
    ("first", "second", "used"),
    [
        ((0, None), (0, None), (0, 0)),
        ((6000, 6000), (6000, None), (6000, 0)),
        ((9000, 6000), (9000, 3000), (6000, 3000)),
        ((6000, 6000), (6000, 3000), (6000, 3000)),  # the second began between two calls
        ((6500, 6000), (6500, None), (6500, 500)),  # 500 MiB are nobody's
        ((15000, 15000), (15000, None), (15000, 15000 - PAIR[0].capacity_mib)),
        ((None, None), (6000, None), (None, 6000)),
    ],
)
def test_what_one_uses_is_not_used_on_the_other(
    first: tuple[int | None, int | None],
    second: tuple[int | None, int | None],
    used: tuple[int | None, int | None],
) -> None:
    found = separated((in_use(ONE, *first), in_use(TWO, *second)))
    assert tuple(reading.used_mib for reading in found) == used
    assert all(NOTE in reading.notes for reading in found)


def test_unmanaged_processes_of_one_are_not_those_of_the_other() -> None:
    found = separated((in_use(ONE, 4000, others=4000), in_use(TWO, 4000)))
    assert [reading.used_mib for reading in found] == [4000, 0]


def test_the_activity_of_both_is_nobodys() -> None:
    found = separated((in_use(ONE, 6000, 6000), in_use(TWO, 6000)))
    assert [reading.smact for reading in found] == [0.5, None]


def test_where_the_other_cannot_be_read_all_counts_as_used() -> None:
    lost = replace(in_use(ONE, None), error="GPU is lost")
    found = separated((lost, in_use(TWO, 6000)))
    assert (found[0], found[1].used_mib) == (lost, 6000)
    assert separated((in_use(TWO, 6000),))[0].used_mib == 6000


def test_the_driver_lists_them(nvml: Nvml) -> None:
    gpu = nvml.gpu()
    pair = [
        nvml.mig(gpu, "1c.3g.20gb", gpu_instance=1, compute_instance=n, memory_used_mib=8000)
        for n in (0, 1)
    ]
    own = nvml.mig(gpu, "2g.10gb", gpu_instance=2)
    nvml.process(pair[0], 101, 8000)
    gpus = open_gpus(ReadingsConfig(source="nvml", smact="utilization"))
    devices = gpus.devices()
    assert [d.profile for d in devices] == ["1c.3g.20gb", "1c.3g.20gb", "2g.10gb"]
    assert [d.total_mib for d in devices] == [10112, 10112, 9984]
    readings = gpus.read([*pair, own], AT, {101: (7, 1)}.get)
    assert [reading.used_mib for reading in readings] == [8000, 0, 0]
    assert [NOTE in reading.notes for reading in readings] == [True, True, False]
    gpus.close()


# ------------------------------------------------------------------ placement


def placed(world: World, needs: Sequence[int]) -> list[JobState]:
    jobs = [world.submit(need * GIB, source="declared") for need in needs]
    return [world.state(job) for job in jobs]


def test_both_have_a_job_and_their_memory_is_promised_once() -> None:
    running, waiting, failed = JobState.RUNNING, JobState.PENDING, JobState.FAILED
    assert placed(World(PAIR), [9, 9, 9]) == [running, running, waiting]
    assert placed(World(PAIR), [12]) == [failed], "12 of 20 GiB: the other could not have its part"
