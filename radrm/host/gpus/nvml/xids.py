"""What the driver reports of broken GPUs while they run: Xids, through an event set.

An Xid is heard once, and what it says stays true: a fault is kept until the GPU is seen
to have been reset, the driver to have been loaded anew, or somebody has acknowledged it.
Xids from before radrm listened are not heard; `condition` asks for what stays visible.

Which Xids are faults: NVIDIA, "Xid Errors", catalog; which are an application's own doing
and say nothing of the GPU: the health check of NVIDIA's Kubernetes device plugin.
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
"""More in one round would only repeat themselves."""
_NOTED_S = 3600.0

_REPLACE = f"{words.RESET}; if it comes back, have the GPU replaced"
# The gravest first: of several, that is the one whose next step is told.
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
    """None: the driver could not name it."""
    instance: int | None
    """The GPU instance, where the Xid is of one only."""
    xid: int
    boot_s: float

    def concerns(self, place: Place) -> bool:
        if self.gpu not in (None, place.gpu_uuid):
            return False
        if self.instance is None or place.instance is None:
            return True
        return place.instance[0] == self.instance


class Xids:
    """Hears the Xids of the GPUs that it was told to watch."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._generation = library.generation
        self._unloaded = library.unloaded
        self._events: Any = None
        self._watched: set[str] = set()
        self._heard: tuple[_Heard, ...] = ()
        library.before_shutdown.append(self._free)

    def watch(self, place: Place) -> None:
        """Listen to this GPU from now on. One that offers no events is left at that."""
        self._drop_stale()
        if place.gpu_uuid in self._watched:
            return
        self._watched.add(place.gpu_uuid)
        if self._events is None:
            self._events = self._library.perhaps("nvmlEventSetCreate")
        if self._events is not None:
            given = place.gpu, _XID_CRITICAL_ERROR, self._events
            self._library.perhaps("nvmlDeviceRegisterEvents", *given)

    def collect(self, at: Instant) -> None:
        """Take what has been reported. Waits for nothing."""
        self._drop_stale()
        for _ in range(_AT_ONCE if self._events is not None else 0):
            event = self._library.perhaps("nvmlEventSetWait_v2", self._events, 0)
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
            pass  # it is lost: then it may be any
        instance = None if event.gpuInstanceId == _NO_INSTANCE else event.gpuInstanceId
        heard = _Heard(gpu, instance, event.eventData, boot_s)
        others = tuple(h for h in self._heard if replace(h, boot_s=boot_s) != heard)
        if len(others) == len(self._heard):  # once, however often it is repeated
            log.error("%s: %s", gpu or "a GPU that the driver cannot name", _told(heard.xid))
        self._heard = (*others, heard)

    # -------------------------------------------------------------- what is known

    def fault(self, place: Place) -> str | None:
        """Why this device takes no job."""
        # Of a GPU that has no name only that much is known: it is one of them.
        named = {h.xid for h in self._heard if h.gpu is not None and h.concerns(place)}
        faults = [xid for xid in FAULTS if xid in named]
        if not faults:
            return None
        also = f" (also Xid {', '.join(map(str, faults[1:]))})" if faults[1:] else ""
        return f"{_told(faults[0])}{also}"

    def notes(self, place: Place) -> tuple[str, ...]:
        """What is no fault and has been reported in the last hour."""
        return tuple(
            _told(h.xid) if h.gpu else f"{_told(h.xid)}; the driver cannot say of which GPU"
            for h in self._heard
            if h.concerns(place) and not (h.gpu and h.xid in FAULTS)
        )

    def forget(self, gpu_uuid: str, before_s: float = float("inf")) -> None:
        """What was heard of a GPU before then is over."""
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
            self._library.perhaps("nvmlEventSetFree", self._events)
            self._events = None


def _told(xid: int) -> str:
    known = FAULTS.get(xid)
    if known is None:
        return f"the driver has reported Xid {xid}; see dmesg"
    return f"Xid {xid}: {known[0]}; {known[1]}"
