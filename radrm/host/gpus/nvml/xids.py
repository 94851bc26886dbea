"""Faults of GPUs that the driver reports while they run: Xids, through an event set.

Theory of operation. The driver reports an Xid once, but its fault lasts. So a fault is kept until
radrm sees that the GPU was reset or the driver was loaded again, or until an administrator
acknowledges it. After some Xids a GPU may recover (`RECOVERABLE`): they are a fault until the
driver's recovery action (`condition`) is none. A driver without recovery actions leaves them a
fault, as NVIDIA's catalog has it. Other Xids are kept for an hour. The event set belongs to one
connection (`generation`); after a new connection `watch` registers each GPU again. All methods
run in the thread that reads; `take_over` copies one immutable tuple, so the other thread may
hang. A restart forgets all Xids, and the driver does not repeat them; `condition` finds those
faults that the driver still shows.

NVIDIA, "Analyzing Xid Errors with the Xid Catalog", has the catalog. FAULTS has its Xids whose
immediate action is to reset the GPU or the server, and 48. APPLICATION has the Xids that an
application causes and that mean no fault of the GPU, from the health check of NVIDIA's Kubernetes
device plugin; but the catalog wants a reset after 109.
"""

from __future__ import annotations

import logging
from typing import Any

from msgspec import Struct

from radrm.core.records import Instant
from radrm.host.gpus.nvml.library import REBOOT, RESET, Library
from radrm.host.gpus.nvml.listing import Place
from radrm.structs import replace

log = logging.getLogger("radrm")

_XID_CRITICAL_ERROR = 0x8
_NO_INSTANCE = 0xFFFFFFFF
_AT_ONCE = 64
"""Events taken per reading; more would be repetitions."""
_NOTED_S = 3600.0

_REPLACE = f"{RESET}; if it comes back, have the GPU replaced"
# The gravest first: if a GPU has several, the message has the remedy of the first.
FAULTS = {
    79: ("the GPU has fallen off the bus", REBOOT),
    64: ("bad GPU memory could not be retired", _REPLACE),
    48: ("an uncorrectable GPU memory error (double-bit ECC)", RESET),
    95: ("a GPU memory error that may have harmed every job on it", RESET),
    140: ("an unrecovered GPU memory error (ECC)", RESET),
    119: ("the GPU's system processor does not answer", RESET),
    120: ("the GPU's system processor has failed", RESET),
    62: ("the GPU's internal microcontroller has halted", RESET),
    158: ("a fatal timeout of the GPU", RESET),
    143: ("the GPU could not be initialised", RESET),
    46: ("the GPU has stopped processing", RESET),
    109: ("a context switch on the GPU timed out", RESET),
    110: ("a security fault of the GPU", RESET),
    136: ("the training of an NVLink has failed", RESET),
    155: ("an NVLink error", RESET),
    156: ("a part of the GPU is to be retired", RESET),
}
RECOVERABLE = frozenset({46, 109, 110, 136, 143, 155, 156, 158})
"""Faults only while the driver's recovery action is not none, or unknown."""
APPLICATION = frozenset({13, 31, 43, 45, 68})
_ACTION_CHANGED = 154
_HARMLESS = {
    63: "bad GPU memory is remapped at the next reset; jobs can go on",
}


class _Heard(Struct, frozen=True):
    gpu: str | None
    """None: the driver could not name the GPU."""
    instance: int | None
    """The GPU instance, if the Xid concerns only one."""
    xid: int
    boot_s: float
    recovered: bool = False
    """The driver has said since then that the GPU needs no recovery."""

    @property
    def is_fault(self) -> bool:
        return self.xid in FAULTS and not self.recovered

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

    def collect(self, at: Instant) -> set[str]:
        """Take the events that wait now. Returns at once.

        Returns the UUIDs of GPUs whose recovery action may have changed.
        """
        self._drop_stale()
        changed: set[str] = set()
        for _ in range(_AT_ONCE if self._events is not None else 0):
            event = self._library.call_or_none("nvmlEventSetWait_v2", self._events, 0)
            if event is None:  # TIMEOUT: nothing is left
                break
            if event.eventType & _XID_CRITICAL_ERROR and event.eventData not in APPLICATION:
                gpu = self._name(event.device)
                if gpu is not None and event.eventData in RECOVERABLE | {_ACTION_CHANGED}:
                    changed.add(gpu)
                if event.eventData != _ACTION_CHANGED:  # it tells of another Xid, not of a fault
                    self._take(event, gpu, at.boot_s)
        self._heard = tuple(h for h in self._heard if h.is_fault or at.boot_s - h.boot_s < _NOTED_S)
        return changed

    def _name(self, gpu: Any) -> str | None:
        try:
            return self._library.text("nvmlDeviceGetUUID", gpu)
        except self._library.Error:
            return None  # the GPU is lost, so its name is unknown

    def _take(self, event: Any, gpu: str | None, boot_s: float) -> None:
        instance = None if event.gpuInstanceId == _NO_INSTANCE else event.gpuInstanceId
        heard = _Heard(gpu, instance, event.eventData, boot_s)
        others = tuple(
            h for h in self._heard if replace(h, boot_s=boot_s, recovered=False) != heard
        )
        # Each once, not its repetitions. A fault of a GPU is in its readings, which are logged.
        if len(others) == len(self._heard) and not (gpu and heard.is_fault):
            log.warning("%s: %s", gpu or "a GPU that the driver cannot name", _message(heard.xid))
        self._heard = (*others, heard)

    # -------------------------------------------------------------- answers

    def fault(self, place: Place) -> str | None:
        """Return why this device takes no job; None if it has no fault."""
        # An Xid without a GPU may be of any GPU, so it is no fault of this one.
        named = {h.xid for h in self._heard if h.gpu and h.is_fault and h.concerns(place)}
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
            _noted(h) for h in self._heard if h.concerns(place) and not (h.gpu and h.is_fault)
        )

    def recovered(self, gpu_uuid: str) -> None:
        """Note that the driver demands no recovery of this GPU now."""
        if any(h.gpu == gpu_uuid and h.xid in RECOVERABLE for h in self._heard):
            self._heard = tuple(
                replace(h, recovered=True) if h.gpu == gpu_uuid and h.xid in RECOVERABLE else h
                for h in self._heard
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


def _noted(heard: _Heard) -> str:
    """Return the note of an Xid that is no fault of one GPU."""
    if heard.recovered:
        return f"Xid {heard.xid}: {FAULTS[heard.xid][0]}; the driver demands no recovery"
    message = _message(heard.xid)
    return message if heard.gpu else f"{message}; the driver cannot say of which GPU"


def _message(xid: int) -> str:
    if xid in _HARMLESS:
        return f"Xid {xid}: {_HARMLESS[xid]}"
    known = FAULTS.get(xid)
    if known is None:
        return f"the driver has reported Xid {xid}; see dmesg"
    return f"Xid {xid}: {known[0]}; {known[1]}"
