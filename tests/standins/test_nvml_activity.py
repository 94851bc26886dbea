"""The stand-in of libnvidia-ml.so.1: SM activity by GPM, and events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pynvml

from tests.standins.nvml_calls import (
    INVALID,
    NO_DATA,
    NO_INSTANCE,
    NOT_FOUND,
    NOT_SUPPORTED,
    TIMEOUT,
    XID,
    error,
    handle,
)
from tests.standins.nvml_library import A100, Nvml

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
