"""The stand-in of libnvidia-ml.so.1 answers the real `pynvml` as its state says.

What radrm makes of the answers is tested in tests/host and tests/daemon.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.standins.nvml_library import A100, H100, Nvml, build

MIB = 1024 * 1024
INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TIMEOUT = 2, 3, 4, 6, 10
NO_DRIVER, NO_FUNCTION, LOST, RESET, MISMATCH, OLD_STRUCT = 9, 13, 15, 16, 18, 25
UNINITIALIZED, NO_DATA, UNKNOWN = 1, 21, 999
NO_INSTANCE = 0xFFFFFFFF
VOLATILE, AGGREGATE, CORRECTED, UNCORRECTED = 0, 1, 0, 1
XID = pynvml.nvmlEventTypeXidCriticalError


@pytest.fixture
def gpu(nvml: Nvml) -> str:
    """One H100, and `pynvml` ready to be asked."""
    uuid = nvml.gpu(model=H100)
    pynvml.nvmlInit()
    return uuid


def handle(uuid: str) -> Any:
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def error(call: Callable[..., Any], *given: Any) -> int:
    with pytest.raises(pynvml.NVMLError) as caught:
        call(*given)
    number: int = caught.value.value
    return number


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


def memory(uuid: str, version: int | None = pynvml.nvmlMemory_v2) -> dict[str, int]:
    info = pynvml.nvmlDeviceGetMemoryInfo(handle(uuid), version=version)
    return {name: getattr(info, name) // MIB for name, _ in info._fields_ if name != "version"}


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


READERS = {
    "compute": pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    "mps": pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
    "graphics": pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
}


def held(uuid: str, kind: str = "compute") -> dict[int, int | None]:
    found = READERS[kind](handle(uuid))
    return {p.pid: p.usedGpuMemory and p.usedGpuMemory // MIB for p in found}


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


# ------------------------------------------------------------------ GPM


def sample(take: Callable[[Any], Any]) -> Any:
    made = pynvml.nvmlGpmSampleAlloc()
    take(made)
    return made


def metric(first: Any, second: Any, number: int = pynvml.NVML_GPM_METRIC_SM_UTIL) -> Any:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 1
    request.sample1, request.sample2 = first, second
    request.metrics[0].metricId = number
    return pynvml.nvmlGpmMetricsGet(request).metrics[0]


def settled(take: Callable[[Any], Any]) -> Any:
    """The SM metric over two samples, the second taken again until it is far enough away."""
    first, second = sample(take), pynvml.nvmlGpmSampleAlloc()
    while True:
        take(second)
        found = metric(first, second)
        if found.nvmlReturn != NO_DATA:
            pynvml.nvmlGpmSampleFree(first)
            pynvml.nvmlGpmSampleFree(second)
            return found


def test_sm_activity_takes_two_samples(nvml: Nvml, gpu: str) -> None:
    nvml.set(gpu, sm_util=37.5)
    device = handle(gpu)
    assert pynvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice == 1

    def take(into: Any) -> Any:
        return pynvml.nvmlGpmSampleGet(device, into)

    once = sample(take)
    assert metric(once, once).nvmlReturn == NO_DATA
    found = settled(take)
    assert (found.nvmlReturn, found.value) == (0, 37.5)
    nvml.set(gpu, sm_util=None)
    assert settled(take).nvmlReturn == NOT_SUPPORTED


def test_samples_of_instances_and_of_others(nvml: Nvml, gpu: str) -> None:
    nvml.mig(gpu, "1g.10gb", gpu_instance=9, sm_util=80)
    device = handle(gpu)
    other = nvml.gpu(model=A100)
    assert settled(lambda into: pynvml.nvmlGpmMigSampleGet(device, 9, into)).value == 80
    made = pynvml.nvmlGpmSampleAlloc()
    assert error(pynvml.nvmlGpmMigSampleGet, device, 3, made) == NOT_FOUND
    assert pynvml.nvmlGpmQueryDeviceSupport(handle(other)).isSupportedDevice == 0
    assert error(pynvml.nvmlGpmSampleGet, handle(other), made) == NOT_SUPPORTED
    assert error(metric, made, made) == INVALID, "an empty sample"
    mine = sample(lambda into: pynvml.nvmlGpmSampleGet(device, into))
    pynvml.nvmlGpmMigSampleGet(device, 9, made)
    assert error(metric, mine, made) == INVALID, "samples of two devices"


# ------------------------------------------------------------------ events


def listening(*uuids: str) -> Any:
    events = pynvml.nvmlEventSetCreate()
    for uuid in uuids:
        pynvml.nvmlDeviceRegisterEvents(handle(uuid), XID, events)
    return events


def test_an_event_is_told_once_to_those_who_listened_before(nvml: Nvml, gpu: str) -> None:
    other = nvml.gpu()
    nvml.xid(gpu, 13)
    events, second = listening(gpu, other), listening(gpu)
    assert error(pynvml.nvmlEventSetWait_v2, events, 0) == TIMEOUT, "it was before"
    nvml.xid(other, 79)
    nvml.xid(gpu, 48)
    nvml.event(gpu, 2, 0)  # of a type that nobody asked for
    told = [pynvml.nvmlEventSetWait_v2(events, 0) for _ in range(2)]
    assert {(pynvml.nvmlDeviceGetUUID(e.device), e.eventType, e.eventData) for e in told} == {
        (other, XID, 79),
        (gpu, XID, 48),
    }
    assert {e.gpuInstanceId for e in told} == {NO_INSTANCE}
    assert error(pynvml.nvmlEventSetWait_v2, events, 0) == TIMEOUT
    assert pynvml.nvmlEventSetWait_v2(second, 0).eventData == 48
    for done_with in (events, second):
        pynvml.nvmlEventSetFree(done_with)


def test_a_wait_ends_with_the_event(nvml: Nvml, gpu: str) -> None:
    events = listening(gpu)
    found: list[Any] = []
    waiter = threading.Thread(
        target=lambda: found.append(pynvml.nvmlEventSetWait_v2(events, 60_000)), daemon=True
    )
    waiter.start()
    nvml.xid(gpu, 31)
    waiter.join(timeout=30)
    assert [e.eventData for e in found] == [31]


def test_events_of_instances_and_of_gpus_that_have_none(nvml: Nvml, gpu: str) -> None:
    instance = nvml.mig(gpu, "1g.10gb")
    deaf = nvml.gpu(event_types=None)
    events = listening(gpu)
    nvml.xid(instance, 43)
    event = pynvml.nvmlEventSetWait_v2(events, 0)
    assert (event.gpuInstanceId, event.computeInstanceId) == (1, 0)
    assert pynvml.nvmlDeviceGetUUID(event.device) == gpu
    for silent in (instance, deaf):
        given = (handle(silent), XID, events)
        assert error(pynvml.nvmlDeviceRegisterEvents, *given) == NOT_SUPPORTED


# ------------------------------------------------------------------ trouble


@pytest.mark.parametrize("number", [NOT_SUPPORTED, NO_PERMISSION, LOST, RESET, MISMATCH, UNKNOWN])
def test_a_function_fails_for_all_or_for_one(nvml: Nvml, gpu: str, number: int) -> None:
    other = nvml.gpu()
    both = handle(gpu), handle(other)
    nvml.fail("nvmlDeviceGetPowerUsage", number)
    assert [error(pynvml.nvmlDeviceGetPowerUsage, h) for h in both] == [number] * 2
    nvml.fail("nvmlDeviceGetPowerUsage", 0)
    nvml.fail("nvmlDeviceGet*", number, other)
    assert pynvml.nvmlDeviceGetPowerUsage(both[0]) == 60_000
    assert error(pynvml.nvmlDeviceGetPowerUsage, both[1]) == number
    assert error(pynvml.nvmlDeviceGetHandleByIndex, 1) == number
    assert error(handle, other) == number
    nvml.fail("nvmlDeviceGet*", 0, other)
    assert pynvml.nvmlDeviceGetPowerUsage(both[1]) == 60_000


def test_an_instance_shares_its_gpus_trouble(nvml: Nvml, gpu: str) -> None:
    device = handle(nvml.mig(gpu, "1g.10gb"))
    nvml.fail("*", LOST, gpu)
    assert error(pynvml.nvmlDeviceGetName, device) == LOST


def test_a_hang_holds_its_caller_only(nvml: Nvml, gpu: str) -> None:
    device = handle(gpu)
    nvml.hang("nvmlDeviceGetPowerUsage")
    found: list[int] = []
    stuck = threading.Thread(
        target=lambda: found.append(pynvml.nvmlDeviceGetPowerUsage(device)), daemon=True
    )
    stuck.start()
    while not nvml.calls("nvmlDeviceGetPowerUsage"):
        assert stuck.is_alive()
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA H100 80GB HBM3"
    nvml.set(gpu, power_mw=1)
    assert found == []
    nvml.release("nvmlDeviceGetPowerUsage")
    stuck.join(timeout=30)
    assert found == [1], "it answers with what is true by then"


def test_a_delay_is_served(nvml: Nvml, gpu: str) -> None:
    device = handle(gpu)
    nvml.delay("nvmlDeviceGetPowerUsage", 0.02, gpu)
    before = time.monotonic()
    assert pynvml.nvmlDeviceGetPowerUsage(device) == 60_000
    assert time.monotonic() - before >= 0.02, "it cannot have been earlier"


def test_opening_and_closing(nvml: Nvml) -> None:
    nvml.gpu()
    assert error(pynvml.nvmlDeviceGetCount) == UNINITIALIZED
    pynvml.nvmlInit()
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 1
    pynvml.nvmlShutdown()
    assert error(pynvml.nvmlDeviceGetCount) == UNINITIALIZED
    assert error(pynvml.nvmlShutdown) == UNINITIALIZED
    nvml.fail("nvmlInit*", MISMATCH)
    assert error(pynvml.nvmlInit) == MISMATCH


def test_no_state_is_no_driver(nvml: Nvml) -> None:
    nvml.state.unlink()
    assert error(pynvml.nvmlInit) == NO_DRIVER


@pytest.mark.parametrize(
    "line",
    [
        "gpux GPU-a",
        "set GPU-none power_mw 1",
        "set {gpu} powr_mw 1",
        "set {gpu} power_mw lots",
        "process {gpu} 12",
        "process {gpu} 12 100 computer",
        "mig MIG-a GPU-none",
        "fail nvmlInit",
        "xid {gpu}",
        "gpu",
        "gone MIG-none",
        "set {gpu} name " + "x" * 200,
    ],
)
def test_a_typo_cannot_pass(
    nvml: Nvml, gpu: str, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    nvml.write(line.format(gpu=gpu))
    assert error(pynvml.nvmlDeviceGetCount) == UNKNOWN
    count = len(nvml.state.read_text().splitlines())
    assert f"line {count}: " in capfd.readouterr().err


def test_half_a_line_is_not_read(nvml: Nvml, gpu: str) -> None:
    with nvml.state.open("a") as file:
        file.write(f"# a comment\n\nset {gpu} power_mw 77")
    assert pynvml.nvmlDeviceGetPowerUsage(handle(gpu)) == 60_000
    nvml.write("000")
    assert pynvml.nvmlDeviceGetPowerUsage(handle(gpu)) == 77_000


# ------------------------------------------------------------------ an old driver


def test_an_old_driver_lacks_functions(old_nvml: Nvml) -> None:
    device = old_nvml.gpu()
    old_nvml.process(device, 5, 100)
    old_nvml.process(device, 6, None, "mps")
    pynvml.nvmlInit()
    for call in (
        *READERS.values(),
        lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2),
        lambda h: pynvml.nvmlDeviceGetTemperatureV(h, 0),
        pynvml.nvmlDeviceGetCurrentClocksEventReasons,
        pynvml.nvmlGpmQueryDeviceSupport,
    ):
        assert error(call, handle(device)) == NO_FUNCTION
    assert memory(device, None)["used"] == 700
    (one,) = pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle(device))
    (two,) = pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2(handle(device))
    assert [(p.pid, p.usedGpuMemory) for p in (one, two)] == [(5, 100 * MIB), (6, None)]


# ------------------------------------------------------------------ other processes

OTHER = """
import pynvml
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0)))
"""


def test_another_process_finds_it_by_name(nvml_driver: Nvml) -> None:
    uuid = nvml_driver.gpu()
    done = subprocess.run(
        [sys.executable, "-c", OTHER],
        env={**os.environ, **nvml_driver.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (uuid, "")
    assert nvml_driver.calls("nvmlInitWithFlags") == ["nvmlInitWithFlags"]


def test_without_a_compiler_tests_are_skipped_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="no C compiler"):
        build(tmp_path)
