"""Faults of GPUs that the driver reports while they run: Xids, through an event set.

Theory of operation. The driver reports an Xid once, but its fault lasts. So a fault is kept until
radrm sees that the GPU was reset or the driver was loaded again, or until an administrator
acknowledges it. Other Xids are kept for an hour. The event set belongs to one connection
(`generation`); after a new connection `watch` registers each GPU again. All methods run in the
thread that reads; `take_over` copies one immutable tuple, so the other thread may hang. A
restart forgets all Xids, and the driver does not repeat them; `condition` finds those faults
that the driver still shows.

NVIDIA, "Xid Errors", has the catalog. APPLICATION has the Xids that an application causes and
that mean no fault of the GPU, from the health check of NVIDIA's Kubernetes device plugin.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from radrm.core.records import Instant
from radrm.host.gpus.nvml import words
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Place

log = logging.getLogger("radrm")

_XID_CRITICAL_ERROR = 0x8
_NO_INSTANCE = 0xFFFFFFFF
_AT_ONCE = 64
"""Events taken per reading; more would be repetitions."""
_NOTED_S = 3600.0

_REPLACE = f"{words.RESET}; if it comes back, have the GPU replaced"
# The gravest first: if a GPU has several, the message has the remedy of the first.
FAULTS = {
    79: ("the GPU has fallen off the bus", words.REBOOT),
    64: ("bad GPU memory could not be retired", _REPLACE),
    48: ("an uncorrectable GPU memory error (double-bit ECC)", words.RESET),
    95: ("a GPU memory error that may have harmed every job on it", words.RESET),
    140: ("an unrecovered GPU memory error (ECC)", words.RESET),
    119: ("the GPU's system processor does not answer", words.RESET),
    120: ("the GPU's system processor has failed", words.RESET),
    62: ("the GPU's internal microcontroller has halted", words.RESET),
    63: ("bad GPU memory is to be retired, which takes a reset", words.RESET),
}
APPLICATION = frozenset({13, 31, 43, 45, 68, 109})


@dataclass(frozen=True, slots=True)
class _Heard:
    gpu: str | None
    """None: the driver could not name the GPU."""
    instance: int | None
    """The GPU instance, if the Xid concerns only one."""
    xid: int
    boot_s: float

    def concerns(self, place: Place) -> bool:
        """Return whether the Xid may be of this device."""
        if self.gpu not in (None, place.gpu_uuid):
            return False
        if self.instance is None or place.instance is None:
            return True
        return place.instance[0] == self.instance


class Xids:
    """Collects the Xids of watched GPUs."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._generation = library.generation
        self._unloaded = library.unloaded
        self._events: Any = None
        self._watched: set[str] = set()
        self._heard: tuple[_Heard, ...] = ()
        library.before_shutdown.append(self._free)

    def watch(self, place: Place) -> None:
        """Register for the events of this GPU, once per connection; ignore a GPU without events."""
        self._drop_stale()
        if place.gpu_uuid in self._watched:
            return
        self._watched.add(place.gpu_uuid)
        if self._events is None:
            self._events = self._library.call_or_none("nvmlEventSetCreate")
        if self._events is not None:
            given = place.gpu, _XID_CRITICAL_ERROR, self._events
            self._library.call_or_none("nvmlDeviceRegisterEvents", *given)

    def collect(self, at: Instant) -> None:
        """Take the events that wait now. Returns at once."""
        self._drop_stale()
        for _ in range(_AT_ONCE if self._events is not None else 0):
            event = self._library.call_or_none("nvmlEventSetWait_v2", self._events, 0)
            if event is None:  # TIMEOUT: nothing is left
                break
            if event.eventType & _XID_CRITICAL_ERROR and event.eventData not in APPLICATION:
                self._take(event, at.boot_s)
        self._heard = tuple(
            h for h in self._heard if h.xid in FAULTS or at.boot_s - h.boot_s < _NOTED_S
        )

    def _take(self, event: Any, boot_s: float) -> None:
        gpu = None
        try:
            gpu = self._library.text("nvmlDeviceGetUUID", event.device)
        except self._library.Error:
            pass  # the GPU is lost, so its name is unknown
        instance = None if event.gpuInstanceId == _NO_INSTANCE else event.gpuInstanceId
        heard = _Heard(gpu, instance, event.eventData, boot_s)
        others = tuple(h for h in self._heard if replace(h, boot_s=boot_s) != heard)
        if len(others) == len(self._heard):  # log an Xid once, not its repetitions
            log.error("%s: %s", gpu or "a GPU that the driver cannot name", _message(heard.xid))
        self._heard = (*others, heard)

    # -------------------------------------------------------------- answers

    def fault(self, place: Place) -> str | None:
        """Return why this device takes no job; None if it has no fault."""
        # An Xid without a GPU may be of any GPU, so it is no fault of this one.
        named = {h.xid for h in self._heard if h.gpu is not None and h.concerns(place)}
        faults = [xid for xid in FAULTS if xid in named]
        if not faults:
            return None
        also = f" (also Xid {', '.join(map(str, faults[1:]))})" if faults[1:] else ""
        return f"{_message(faults[0])}{also}"

    def notes(self, place: Place) -> tuple[str, ...]:
        """Return the Xids that are no fault of this device, for an hour after the last report.

        A grave Xid of a GPU that the driver could not name stays longer, as faults do.
        """
        return tuple(
            _message(h.xid) if h.gpu else f"{_message(h.xid)}; the driver cannot say of which GPU"
            for h in self._heard
            if h.concerns(place) and not (h.gpu and h.xid in FAULTS)
        )

    def forget(self, gpu_uuid: str, before_s: float = float("inf")) -> None:
        """Drop the Xids of a GPU from before `before_s`, and those without a GPU."""
        self._heard = tuple(
            h for h in self._heard if h.gpu not in (None, gpu_uuid) or h.boot_s >= before_s
        )

    def take_over(self, other: Xids) -> None:
        self._heard = other._heard

    # -------------------------------------------------------------- the event set

    def _drop_stale(self) -> None:
        if self._generation != self._library.generation:
            self._generation = self._library.generation
            self._events = None
            self._watched.clear()
        if self._unloaded != self._library.unloaded:
            self._unloaded = self._library.unloaded
            self._heard = ()

    def _free(self) -> None:
        if self._events is not None:
            self._library.call_or_none("nvmlEventSetFree", self._events)
            self._events = None


def _message(xid: int) -> str:
    known = FAULTS.get(xid)
    if known is None:
        return f"the driver has reported Xid {xid}; see dmesg"
    return f"Xid {xid}: {known[0]}; {known[1]}"
