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
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from radrm.core.records import Device
from radrm.errors import DeviceError
from radrm.host.gpus.nvml import NvmlGpus, words
from radrm.host.gpus.source import Sample

log = logging.getLogger("radrm")

SHORTEST_S = 0.11
"""Shortest time between two samples; the driver requires more than 0.1 s."""
LONGEST_S = 60.0
"""Longest time between two samples: a longer mean does not show the present load."""

_VERSION = 1
_SM_UTIL, _SM_OCCUPANCY = 2, 3
_ROUNDING = 0.01
"""The driver reads the counters one by one, so 100 % can read as 100.2 %."""


@dataclass(slots=True)
class _Meter:
    """One device. `old` and `new` are the driver's buffers. `new` holds a sample of `taken_s`,
    unless that is None. `served`: the device has given a figure before."""

    generation: int
    old: Any = None
    new: Any = None
    taken_s: float | None = None
    supported: bool | None = None
    served: bool = False
    smact: float | None = None
    occupancy: float | None = None
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
        return Sample(smact=meter.smact, age_s=max(0.0, self._now() - meter.measured_s))

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

    # -------------------------------------------------------------- other figures

    def occupancy(self, uuid: str) -> float | None:
        """Return the share of the SMs' warp slots that were occupied, 0..1."""
        meter = self._meters.get(uuid)
        return meter.occupancy if meter is not None else None

    # -------------------------------------------------------------- one device

    def _measure(self, uuid: str, meter: _Meter) -> None:
        try:
            cause = self._sample(uuid, meter)
        except self._library.Error as error:
            cause = words.device_message(error.value, error)
            if error.value in words.NOT_OFFERED and not meter.served:
                if meter.error is None and cause not in self._logged:
                    self._logged.add(cause)  # once for all GPUs that answer so
                    log.warning("%s: GPM gives no SM activity: %s", uuid, cause)
                meter.supported = False
        except DeviceError as error:
            cause = str(error)
        if cause is not None:
            # A sample from before the error must not begin the next measured time.
            meter.taken_s = meter.smact = meter.occupancy = None
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
        request = self._library.pynvml.c_nvmlGpmMetricsGet_t()
        request.version = _VERSION
        request.sample1, request.sample2 = meter.old, meter.new
        request.numMetrics = 2
        request.metrics[0].metricId = _SM_UTIL
        request.metrics[1].metricId = _SM_OCCUPANCY
        self._library.call("nvmlGpmMetricsGet", request)
        activity, occupancy = request.metrics[0], request.metrics[1]
        if activity.nvmlReturn != 0:
            return words.device_message(activity.nvmlReturn, "the driver has no figure")
        share = _share(activity.value)
        if share is None:
            return f"the driver gives {activity.value} %, which is not in 0..100 %"
        meter.smact, meter.measured_s = share, meter.taken_s or 0.0
        meter.occupancy = None if occupancy.nvmlReturn else _share(occupancy.value)
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


def _share(percent: float) -> float | None:
    """Return the share in 0..1; None for an impossible percentage."""
    share = percent / 100
    if not math.isfinite(share) or not 0 <= share <= 1 + _ROUNDING:
        return None
    return min(share, 1.0)
