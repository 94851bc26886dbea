"""A driver before 510 counts memory of its own as used: learnt on idle devices, and left out.

The driver is the library of tests/standins/nvml, in its old form.
"""

from __future__ import annotations

import pytest

from radrm.core.records import Device, Instant, Reading
from radrm.host.gpus.nvml import NvmlGpus, find
from radrm.host.gpus.nvml.listing import MOST_MIB
from tests.standins.nvml_library import Nvml

AHEAD = 4_194_304  # no pid is as high as this
RESERVE_MIB = 600  # the stand-in's A100


def opened() -> NvmlGpus:
    gpus = find().gpus
    assert gpus is not None
    return gpus


def read(gpus: NvmlGpus, uuid: str, at_s: float = 10.0) -> Reading:
    (reading,) = gpus.read([uuid], Instant(at_s, at_s), {AHEAD: (7, 1)}.get)
    assert reading.error is None
    return reading


def only(gpus: NvmlGpus) -> Device:
    (device,) = gpus.devices()
    return device


def test_an_idle_gpu_reads_as_idle_and_has_less_to_give(old_nvml: Nvml) -> None:
    gpu = old_nvml.gpu()
    gpus = opened()
    device = only(gpus)
    assert (device.overhead_mib, device.capacity_mib) == (RESERVE_MIB, 40960 - RESERVE_MIB)
    reading = read(gpus, gpu)
    assert reading.used_mib == 0
    assert any("counts 600 MiB of its own as used" in note for note in reading.notes)
    old_nvml.process(gpu, AHEAD, 8000)
    reading = read(gpus, gpu)
    assert (reading.used_mib, reading.attempts[0].used_mib) == (8000, 8000)


def test_a_gpu_that_is_in_use_from_the_start_is_learnt_once_it_is_not(old_nvml: Nvml) -> None:
    gpu = old_nvml.gpu()
    old_nvml.process(gpu, AHEAD, 8000)
    gpus = opened()
    assert only(gpus).overhead_mib == 0
    reading = read(gpus, gpu)
    assert reading.used_mib == 8000 + RESERVE_MIB, "all of it may be somebody's"
    assert any("subtracts it after a reading without a process" in note for note in reading.notes)
    assert not gpus.changed
    old_nvml.exit(gpu, AHEAD)
    # Nothing is left out before the device says that it has so much less to give.
    assert read(gpus, gpu).used_mib == RESERVE_MIB and gpus.changed
    assert only(gpus).overhead_mib == RESERVE_MIB
    assert read(gpus, gpu).used_mib == 0 and not gpus.changed


def test_what_is_not_yet_given_back_is_not_taken_for_the_drivers_for_long(old_nvml: Nvml) -> None:
    gpu = old_nvml.gpu(memory_used_mib=300)  # of a process that has just ended
    gpus = opened()
    assert only(gpus).overhead_mib == 900
    old_nvml.set(gpu, memory_used_mib=0)
    assert read(gpus, gpu).used_mib == 0, "never less than nothing"
    assert gpus.changed and only(gpus).overhead_mib == RESERVE_MIB
    old_nvml.set(gpu, memory_used_mib=100)
    assert read(gpus, gpu).used_mib == 100, "what comes later is in use"


@pytest.mark.parametrize("how", ["too much", "drawing", "not told", "mps"])
def test_what_might_be_somebodys_counts_as_used(old_nvml: Nvml, how: str) -> None:
    gpu = old_nvml.gpu()
    if how == "too much":
        old_nvml.set(gpu, memory_used_mib=MOST_MIB - RESERVE_MIB + 1)
    elif how == "not told":
        old_nvml.fail("nvmlDeviceGetComputeRunningProcesses*", 3)
    else:
        old_nvml.process(gpu, AHEAD, 100, "mps" if how == "mps" else "graphics")
    gpus = opened()
    assert only(gpus).overhead_mib == 0
    assert (read(gpus, gpu).used_mib or 0) >= RESERVE_MIB and not gpus.changed


def test_another_source_in_its_place_knows_it(old_nvml: Nvml) -> None:
    gpu = old_nvml.gpu()
    before = opened()
    before.devices()
    old_nvml.process(gpu, AHEAD, 8000)
    after = opened()
    after.take_over(before)
    assert only(after).overhead_mib == RESERVE_MIB
    assert read(after, gpu).used_mib == 8000


def test_a_driver_that_tells_is_believed(nvml: Nvml) -> None:
    gpu = nvml.gpu(memory_used_mib=70)
    gpus = opened()
    assert only(gpus).overhead_mib == RESERVE_MIB
    reading = read(gpus, gpu)
    assert (reading.used_mib, reading.notes) == (70, ())
    assert "nvmlDeviceGetGraphicsRunningProcesses_v3" not in nvml.calls()
