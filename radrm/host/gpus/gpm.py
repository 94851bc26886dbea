"""SM activity of Hopper and newer GPUs, from the driver's own performance counters (GPM).

Theory of operation. The driver samples its counters on demand. It computes figures for the time
between two samples, which must be more than 100 ms apart (NVML API reference, "GPM Functions").
So each `latest` takes a sample and compares it with the previous one; nothing runs in between.
GPM blocks no profiler (DCGM issue 62). NVIDIA does not say which users may read it: where the
driver refuses a user, the next feed is tried. Sample buffers belong to one connection
(`generation`): they are freed before it closes, and never used in the next one. The thread that
reads the devices makes all calls. A restart begins without samples.

For a MIG device the figures are those of its GPU instance, which compute instances may share.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from radrm.core.records import Device
from radrm.errors import DeviceError
from radrm.host.gpus.nvml import NvmlGpus
from radrm.host.gpus.nvml.library import NOT_OFFERED, device_message
from radrm.host.gpus.source import Sample, ratio
from radrm.structs import replace

log = logging.getLogger("radrm")

SHORTEST_S = 0.11
"""Shortest time between two samples; the driver requires more than 0.1 s."""
LONGEST_S = 60.0
"""Longest time between two samples: a longer mean does not show the present load."""

_VERSION = 1
_SM_UTIL = 2


class _Meter(Struct):
    """One device. `old` and `new` are the driver's buffers. `new` holds a sample of `taken_s`,
    unless that is None. `served`: the device has given a figure before."""

    generation: int
    old: Any = None
    new: Any = None
    taken_s: float | None = None
    supported: bool | None = None
    served: bool = False
    smact: float | None = None
    measured_s: float = 0.0
    error: str | None = None


class Gpm:
    """A `SmactFeed` that shares the connection and the thread of `gpus`."""

    name = "gpm"

    def __init__(self, gpus: NvmlGpus, now: Callable[[], float] = time.monotonic) -> None:
        self._gpus = gpus
        self._library = gpus.library
        self._now = now
        self._meters: dict[str, _Meter] = {}
        self._logged: set[str] = set()
        self._library.before_shutdown.append(self._free_all)

    # -------------------------------------------------------------- the feed

    def start(self, devices: Sequence[Device]) -> None:
        wanted = {device.uuid for device in devices}
        with self._library.inside():
            for uuid in self._meters.keys() - wanted:
                self._free(self._meters.pop(uuid))
        for uuid in wanted - self._meters.keys():
            self._meters[uuid] = _Meter(self._library.generation)

    def latest(self, uuid: str) -> Sample | None:
        """Take a sample; return the figure since the previous one, None if there is none.

        The first call for a device returns None, since a figure needs two samples.
        """
        meter = self._meters.get(uuid)
        if meter is None:
            return None
        if meter.generation != self._library.generation:
            self._meters[uuid] = meter = self._reconnected(meter)
        now_s = self._now()
        due = meter.taken_s is None or now_s - meter.taken_s >= SHORTEST_S
        if due and meter.supported is not False:
            with self._library.inside():
                self._measure(uuid, meter)
        if meter.smact is None:
            return None
        age_s = max(0.0, self._now() - meter.measured_s)
        return Sample(smact=meter.smact, age_s=age_s)

    def error(self, uuid: str) -> str | None:
        meter = self._meters.get(uuid)
        ours = meter is not None and (meter.supported or meter.served)
        return meter.error if meter is not None and ours else None

    def close(self) -> None:
        """Free the buffers and return at once.

        While another thread is inside a call, the buffers stay allocated until the process ends.
        """
        if not self._library.in_use_elsewhere:
            self._free_all()
        self._meters.clear()

    # -------------------------------------------------------------- one device

    def _measure(self, uuid: str, meter: _Meter) -> None:
        try:
            cause = self._sample(uuid, meter)
        except self._library.Error as error:
            cause = device_message(error.value, error)
            if error.value in NOT_OFFERED and not meter.served:
                if meter.error is None and cause not in self._logged:
                    self._logged.add(cause)  # once for all GPUs that answer so
                    log.warning("%s: GPM gives no SM activity: %s", uuid, cause)
                meter.supported = False
        except DeviceError as error:
            cause = str(error)
        if cause is not None:
            # A sample from before the error must not begin the next measured time.
            meter.taken_s = meter.smact = None
            meter.error = f"GPM gives no SM activity: {cause}"

    def _sample(self, uuid: str, meter: _Meter) -> str | None:
        """Take a sample and compare it with the previous one. Return an error message, or None."""
        place = self._gpus.place(uuid)
        meter.generation = self._library.generation  # `place` may have reconnected
        if meter.supported is None:
            support = self._library.offered("nvmlGpmQueryDeviceSupport", place.gpu)
            meter.supported = bool(support is not None and support.isSupportedDevice)
            if not meter.supported:
                return "the driver no longer offers it" if meter.served else None
        if meter.new is None:
            meter.new = self._library.call("nvmlGpmSampleAlloc")
            meter.old = self._library.call("nvmlGpmSampleAlloc")
        if place.instance is not None:
            numbers = place.gpu, place.instance[0], meter.old
            self._library.call("nvmlGpmMigSampleGet", *numbers)
        else:
            self._library.call("nvmlGpmSampleGet", place.handle, meter.old)
        meter.old, meter.new = meter.new, meter.old
        before_s, meter.taken_s = meter.taken_s, self._now()
        if before_s is None or meter.taken_s - before_s > LONGEST_S:
            return None
        return self._compare(meter)

    def _compare(self, meter: _Meter) -> str | None:
        """Take the figure between the two samples. Return an error message, or None."""
        request = self._library.pynvml.c_nvmlGpmMetricsGet_t()
        request.version = _VERSION
        request.sample1, request.sample2 = meter.old, meter.new
        request.numMetrics = 1
        request.metrics[0].metricId = _SM_UTIL
        self._library.call("nvmlGpmMetricsGet", request)
        found = request.metrics[0]
        if found.nvmlReturn != 0:
            return device_message(found.nvmlReturn, "the driver has no figure")
        smact = ratio(found.value / 100)
        if smact is None:
            return f"the driver gives {found.value} %, which is not in 0..100 %"
        meter.smact, meter.measured_s = smact, meter.taken_s or 0.0
        meter.served, meter.error = True, None
        return None

    def _reconnected(self, meter: _Meter) -> _Meter:
        """Return the meter of the same device for a new connection; the driver is asked again."""
        return replace(
            meter,
            generation=self._library.generation,
            old=None,
            new=None,
            taken_s=None,
            supported=None,
        )

    def _free_all(self) -> None:
        for meter in self._meters.values():
            self._free(meter)

    def _free(self, meter: _Meter) -> None:
        for sample in (meter.old, meter.new):
            if sample is not None:
                self._library.call_or_none("nvmlGpmSampleFree", sample)
        meter.old = meter.new = meter.taken_s = None
