"""The stand-in of libnvidia-ml.so.1 answers the real `pynvml` as its state says.

What radrm makes of the answers is tested in tests/host and tests/daemon.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.standins.nvml_calls import (
    AGGREGATE,
    CORRECTED,
    INVALID,
    LOST,
    NO_INSTANCE,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    OLD_STRUCT,
    READERS,
    UNCORRECTED,
    VOLATILE,
    error,
    handle,
    held,
    memory,
)
from tests.standins.nvml_library import Nvml

# ------------------------------------------------------------------ what the state says


FIGURES = [
    ("power_mw", 310_000, pynvml.nvmlDeviceGetPowerUsage),
    ("power_limit_mw", 650_000, pynvml.nvmlDeviceGetEnforcedPowerLimit),
    ("energy_mj", 2**52 + 1, pynvml.nvmlDeviceGetTotalEnergyConsumption),
    ("temperature_c", 71, lambda h: pynvml.nvmlDeviceGetTemperature(h, 0)),
    ("temperature_c", 72, lambda h: pynvml.nvmlDeviceGetTemperatureV(h, 0)),
    ("temperature_shutdown_c", 95, lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 0)),
    ("temperature_slowdown_c", 90, lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 1)),
    ("clocks_reasons", 0x60, pynvml.nvmlDeviceGetCurrentClocksEventReasons),
    ("clocks_reasons", 0x60, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons),
    ("retired_pending", 1, pynvml.nvmlDeviceGetRetiredPagesPendingStatus),
    ("compute_mode", 3, pynvml.nvmlDeviceGetComputeMode),
    ("persistence_mode", 1, pynvml.nvmlDeviceGetPersistenceMode),
    ("event_types", 0xA, pynvml.nvmlDeviceGetSupportedEventTypes),
    ("mig_max", 7, pynvml.nvmlDeviceGetMaxMigDeviceCount),
    *(
        (f"ecc_{when}_{what}", 5, lambda h, e=e, c=c: pynvml.nvmlDeviceGetTotalEccErrors(h, e, c))
        for c, when in ((VOLATILE, "volatile"), (AGGREGATE, "aggregate"))
        for e, what in ((CORRECTED, "corrected"), (UNCORRECTED, "uncorrected"))
    ),
]


@pytest.mark.parametrize(("figure", "value", "read"), FIGURES)
def test_a_figure(
    nvml: Nvml, gpu: str, figure: str, value: int, read: Callable[[Any], int]
) -> None:
    nvml.set(gpu, **{figure: value})
    assert read(handle(gpu)) == value
    nvml.set(gpu, **{figure: None})
    assert error(read, handle(gpu)) == NOT_SUPPORTED


def test_figures_in_groups(nvml: Nvml, gpu: str) -> None:
    device = handle(gpu)
    nvml.set(gpu, utilization_gpu=35, utilization_memory=12)
    rates = pynvml.nvmlDeviceGetUtilizationRates(device)
    assert (rates.gpu, rates.memory) == (35, 12)
    nvml.set(gpu, remapped_corrected=1, remapped_uncorrected=2, remapped_pending=1)
    assert pynvml.nvmlDeviceGetRemappedRows(device) == (1, 2, 1, 0)
    nvml.set(gpu, retired_single_bit=2, retired_double_bit=0)
    assert len(pynvml.nvmlDeviceGetRetiredPages(device, 0)) == 2
    assert pynvml.nvmlDeviceGetRetiredPages(device, 1) == []
    assert pynvml.nvmlDeviceGetEccMode(device) == [1, 1]
    assert pynvml.nvmlDeviceGetCudaComputeCapability(device) == (9, 0)
    nvml.set(gpu, recovery_action=1)
    known, unknown = pynvml.nvmlDeviceGetFieldValues(device, [230, 1])
    assert (known.nvmlReturn, known.value.uiVal) == (0, 1)
    assert unknown.nvmlReturn == NOT_SUPPORTED


def test_names_and_places(nvml: Nvml, gpu: str) -> None:
    second = nvml.gpu(name="NVIDIA  of two blanks", pci="00000001:C1:00.0")
    first, device = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    assert pynvml.nvmlDeviceGetCount() == 2
    assert [pynvml.nvmlDeviceGetUUID(h) for h in (first, device)] == [gpu, second]
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA  of two blanks"
    assert [pynvml.nvmlDeviceGetIndex(h) for h in (first, device)] == [0, 1]
    assert [pynvml.nvmlDeviceGetMinorNumber(h) for h in (first, device)] == [0, 1]
    pci = pynvml.nvmlDeviceGetPciInfo(device)
    assert (pci.busId, pci.domain, pci.bus) == ("00000001:C1:00.0", 1, 0xC1)
    nvml.gone(gpu)
    assert pynvml.nvmlDeviceGetCount() == 1
    assert pynvml.nvmlDeviceGetIndex(device) == 0, "later ones move up"
    assert error(pynvml.nvmlDeviceGetName, first) == INVALID
    assert error(handle, gpu) == NOT_FOUND
    assert error(pynvml.nvmlDeviceGetHandleByIndex, 1) == INVALID


def test_versions(gpu: str) -> None:
    assert pynvml.nvmlSystemGetDriverVersion() == "550.54.15"
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.550.54.15"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 12040
    assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == 12040
    assert pynvml.nvmlErrorString(LOST) == "GPU is lost"


def test_the_compute_mode_is_set_for_all(nvml: Nvml, gpu: str) -> None:
    pynvml.nvmlDeviceSetComputeMode(handle(gpu), pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    assert pynvml.nvmlDeviceGetComputeMode(handle(gpu)) == 3
    assert nvml.state.read_text().endswith(f"set {gpu} compute_mode 3\n")
    nvml.fail("nvmlDeviceSetComputeMode", NO_PERMISSION)
    assert error(pynvml.nvmlDeviceSetComputeMode, handle(gpu), 0) == NO_PERMISSION


# ------------------------------------------------------------------ memory and processes


def test_memory_in_both_versions(nvml: Nvml, gpu: str) -> None:
    nvml.set(gpu, memory_total_mib=1000, memory_reserved_mib=100, memory_base_mib=5)
    nvml.process(gpu, 1, 200)
    assert memory(gpu) == {"total": 1000, "reserved": 100, "free": 695, "used": 205}
    assert memory(gpu, None) == {"total": 1000, "free": 695, "used": 305}
    nvml.set(gpu, memory_used_mib=7)
    assert memory(gpu)["used"] == 7, "what is set goes before what is added up"
    nvml.set(gpu, memory_used_mib=None)
    assert memory(gpu)["used"] == 205
    assert error(memory, gpu, pynvml.nvmlMemory_v2 + 1) == OLD_STRUCT


def test_each_list_has_its_processes(nvml: Nvml, gpu: str) -> None:
    for number, kind in enumerate(READERS, start=1):
        nvml.process(gpu, number, number * 10, kind)
    assert [held(gpu, kind) for kind in READERS] == [{1: 10}, {2: 20}, {3: 30}]
    nvml.process(gpu, 2, 20, "compute")
    nvml.process(gpu, 3, None, "graphics")
    assert [held(gpu, kind) for kind in READERS] == [{1: 10, 2: 20}, {2: 20}, {3: None}]
    assert memory(gpu)["used"] == 30, "in two lists and held once"
    nvml.exit(gpu, 2)
    assert [held(gpu, kind) for kind in READERS] == [{1: 10}, {}, {3: None}]
    (process,) = READERS["compute"](handle(gpu))
    assert (process.gpuInstanceId, process.computeInstanceId) == (NO_INSTANCE, NO_INSTANCE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 2**22), st.none() | st.integers(0, 50_000)), max_size=30))
def test_any_list_comes_back_whole(nvml: Nvml, gpu: str, rows: list[tuple[int, Any]]) -> None:
    for pid, mib in rows:
        nvml.process(gpu, pid, mib)
    assert held(gpu) == dict(rows), "the last line of a pid is the one that counts"
    assert memory(gpu)["used"] == sum(mib or 0 for mib in dict(rows).values())
    for pid, _ in rows:
        nvml.exit(gpu, pid)
    assert held(gpu) == {}


def test_a_process_leaves_with_its_end(nvml: Nvml, gpu: str) -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    nvml.process(gpu, child.pid, 100, foreign=False)
    nvml.process(gpu, os.getpid(), 10, foreign=False)
    assert held(gpu) == {child.pid: 100, os.getpid(): 10}
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    assert held(gpu) == {os.getpid(): 10}
    assert memory(gpu)["used"] == 10
    child.communicate()
    assert held(gpu) == {os.getpid(): 10}


# ------------------------------------------------------------------ MIG


def test_instances(nvml: Nvml, gpu: str) -> None:
    one = nvml.mig(gpu, "1g.10gb")
    two = nvml.mig(gpu, "1c.3g.40gb", gpu_instance=2, compute_instance=1)
    parent, device = handle(gpu), handle(two)
    assert pynvml.nvmlDeviceGetMigMode(parent) == [1, 1]
    assert pynvml.nvmlDeviceGetCount() == 1
    slots = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, i) for i in (0, 1)]
    assert [pynvml.nvmlDeviceGetUUID(h) for h in slots] == [one, two]
    assert error(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, 2) == NOT_FOUND
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"
    assert pynvml.nvmlDeviceGetGpuInstanceId(device) == 2
    assert pynvml.nvmlDeviceGetComputeInstanceId(device) == 1
    above = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    assert pynvml.nvmlDeviceGetUUID(above) == gpu
    assert [pynvml.nvmlDeviceIsMigDeviceHandle(h).value for h in (parent, device)] == [0, 1]
    attributes = pynvml.nvmlDeviceGetAttributes(device)
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 1)
    assert attributes.memorySizeMB == memory(two)["total"] == 40 * 1024 - 256
    assert error(pynvml.nvmlDeviceGetAttributes, parent) == NOT_SUPPORTED
    for refused in (parent, device):
        assert error(pynvml.nvmlDeviceGetUtilizationRates, refused) == NOT_SUPPORTED


def test_an_instance_destroyed_leaves_its_slot_to_the_next(nvml: Nvml, gpu: str) -> None:
    one, two = nvml.mig(gpu, "1g.10gb"), nvml.mig(gpu, "2g.20gb")
    parent, stale = handle(gpu), handle(one)
    nvml.gone(one)
    assert error(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, 0) == NOT_FOUND
    assert error(pynvml.nvmlDeviceGetUUID, stale) == INVALID
    assert pynvml.nvmlDeviceGetIndex(handle(two)) == 1
    three = nvml.mig(gpu, "1g.10gb")
    assert pynvml.nvmlDeviceGetIndex(handle(three)) == 0
    nvml.gone(gpu)
    assert error(handle, three) == NOT_FOUND, "instances go with their GPU"


def test_processes_of_instances_stand_on_their_gpu_too(nvml: Nvml, gpu: str) -> None:
    one, two = nvml.mig(gpu, "1g.10gb"), nvml.mig(gpu, "2g.20gb")
    nvml.process(one, 11, 100)
    nvml.process(two, 22, 200)
    assert (held(one), held(two)) == ({11: 100}, {22: 200})
    every = READERS["compute"](handle(gpu))
    assert [(p.pid, p.gpuInstanceId, p.computeInstanceId) for p in every] == [
        (11, 1, 0),
        (22, 2, 0),
    ]
    assert memory(gpu)["used"] == 300
