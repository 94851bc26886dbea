"""SM activity of Hopper and newer GPUs, from the driver's own performance counters (GPM).

The driver takes a sample of its counters on demand, and gives figures for the time between
two samples that are more than 100 ms apart: NVML API reference, "GPM Functions". So each
question takes a sample and compares it with that of the question before; nothing runs in
between. No other profiler is locked out by this, and it needs no rights.

Of a MIG device, the figures are those of its GPU instance, which several compute instances
can share.
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
"""Between two samples; the driver wants more than 0.1 s."""
LONGEST_S = 60.0
"""Figures over a longer time say too little of now."""

_VERSION = 1
_SM_UTIL, _SM_OCCUPANCY = 2, 3
_ROUNDING = 0.01
"""Counters are read one after the other, which can make 100.2 % of 100 %."""


@dataclass(slots=True)
class _Meter:
    """One device. `old` and `new` are the driver's buffers; `new` holds a sample when
    `taken_s` says since when. `served`: it has given a figure once."""

    generation: int
    old: Any = None
    new: Any = None
    taken_s: float | None = None
    supported: bool | None = None
    served: bool = False
    smact: float | None = None
    occupancy: float | None = None
    measured_s: float = 0.0
    trouble: str | None = None


class Gpm:
    """A `SmactFeed`. It shares the connection of `gpus`, and its thread."""

    name = "gpm"

    def __init__(self, gpus: NvmlGpus, now: Callable[[], float] = time.monotonic) -> None:
        self._gpus = gpus
        self._library = gpus.library
        self._now = now
        self._meters: dict[str, _Meter] = {}
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
        """None too while there is trouble. Two questions at least make a sample."""
        meter = self._meters.get(uuid)
        if meter is None:
            return None
        if meter.generation != self._library.generation:
            self._meters[uuid] = meter = self._renewed(meter)
        now_s = self._now()
        due = meter.taken_s is None or now_s - meter.taken_s >= SHORTEST_S
        if due and meter.supported is not False:
            with self._library.inside():
                self._measure(uuid, meter)
        if meter.smact is None:
            return None
        return Sample(smact=meter.smact, age_s=max(0.0, self._now() - meter.measured_s))

    def trouble(self, uuid: str) -> str | None:
        meter = self._meters.get(uuid)
        ours = meter is not None and (meter.supported or meter.served)
        return meter.trouble if meter is not None and ours else None

    def close(self) -> None:
        """Returns at once: what a thread is still at work with is left to the end of this
        process."""
        if not self._library.in_use_elsewhere:
            self._free_all()
        self._meters.clear()

    # -------------------------------------------------------------- beside the feed

    def occupancy(self, uuid: str) -> float | None:
        """Of the warps that the SMs could hold, the share that they held, 0..1."""
        meter = self._meters.get(uuid)
        return meter.occupancy if meter is not None else None

    # -------------------------------------------------------------- one device

    def _measure(self, uuid: str, meter: _Meter) -> None:
        try:
            trouble = self._sample(uuid, meter)
        except self._library.Error as error:
            trouble = words.of_device(error.value, error)
            if error.value in words.NOT_OFFERED and not meter.served:
                if meter.trouble is None:
                    log.warning("%s: GPM gives no SM activity: %s", uuid, trouble)
                meter.supported = False
        except DeviceError as error:
            trouble = str(error)
        if trouble is not None:
            # A sample from before the trouble is no beginning of a time that is measured.
            meter.taken_s = meter.smact = meter.occupancy = None
            meter.trouble = f"GPM gives no SM activity: {trouble}"

    def _sample(self, uuid: str, meter: _Meter) -> str | None:
        """Take one, and compare it with the one before. Returns what is wrong."""
        place = self._gpus.place(uuid)
        meter.generation = self._library.generation  # `place` may have opened it anew
        if meter.supported is None:
            support = self._library.offered("nvmlGpmQueryDeviceSupport", place.gpu)
            meter.supported = bool(support is not None and support.isSupportedDevice)
            if not meter.supported:
                return "the driver does not offer it any more" if meter.served else None
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
            return words.of_device(activity.nvmlReturn, "the driver has no figure")
        share = _share(activity.value)
        if share is None:
            return f"it reads {activity.value} %"
        meter.smact, meter.measured_s = share, meter.taken_s or 0.0
        meter.occupancy = None if occupancy.nvmlReturn else _share(occupancy.value)
        meter.served, meter.trouble = True, None
        return None

    def _renewed(self, meter: _Meter) -> _Meter:
        """The same device over a new connection: the driver is asked everything anew."""
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
                self._library.perhaps("nvmlGpmSampleFree", sample)
        meter.old = meter.new = meter.taken_s = None


def _share(percent: float) -> float | None:
    """0..1; None for what no share can be."""
    share = percent / 100
    if not math.isfinite(share) or not 0 <= share <= 1 + _ROUNDING:
        return None
    return min(share, 1.0)
