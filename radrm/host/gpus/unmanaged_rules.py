"""Decide when an unmanaged process on a GPU is logged and signalled.

Theory of operation. This file is pure: sightings and their time in, due steps out. A process
gets the steps WARN, TERM, KILL in this order, one per reading, and each at most once while it
stays. A process that is not seen for `LONGEST_GAP_S` starts again, without a second WARN. A
device that cannot be read hides its processes for that long, but removes none. Nothing is
stored, so a restart forgets all sightings. `unmanaged_watch` checks who may be signalled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from radrm.config import UnmanagedConfig

WARN_AFTER_S = 5.0
"""Seconds for which a process must be seen before it is logged: the process of a job may be on
its GPU shortly before radrm can find its job."""
LONGEST_GAP_S = 30.0
"""Seconds without a reading after which a process may have left meanwhile."""
_MOST_WARNED = 4096

Key = tuple[int, int]
"""A process of this boot: its pid and its start time in clock ticks."""


class Step(str, Enum):
    """What radrm does about an unmanaged process, in this order."""

    WARN = "warned"
    TERM = "TERM"
    KILL = "KILL"


@dataclass(frozen=True, slots=True)
class Sighting:
    """An unmanaged process that was seen without a gap from `since_s` to `last_s`.

    `done` is the last step that was taken, at `done_s`. Times are in seconds since boot.
    """

    since_s: float
    last_s: float
    devices: frozenset[str]
    done: Step | None = None
    done_s: float = 0.0


def due(config: UnmanagedConfig, seen: Sighting, now_s: float) -> Step | None:
    """Return the next step if its time has come. No step is skipped."""
    stayed_s = now_s - seen.since_s
    if config.action not in ("warn", "signal"):
        return None
    if seen.done is None:
        return Step.WARN if stayed_s >= min(WARN_AFTER_S, config.grace_s) else None
    if config.action != "signal":
        return None
    if seen.done is Step.WARN:
        return Step.TERM if stayed_s >= config.grace_s else None
    if seen.done is Step.TERM:
        return Step.KILL if now_s - seen.done_s >= config.kill_grace_s else None
    return None


@dataclass(slots=True)
class Sightings:
    """The unmanaged processes that are present now, and since when."""

    config: UnmanagedConfig
    present: dict[Key, Sighting] = field(default_factory=dict)
    _warned: set[Key] = field(default_factory=set)
    """Processes that were logged, so that each is logged once."""

    def look(
        self, now_s: float, seen: Mapping[Key, Collection[str]], unread: Collection[str] = ()
    ) -> list[tuple[Key, Step]]:
        """Take the sightings of `now_s` and return the steps that are due.

        `seen` has the devices of each process, `unread` the devices that could not be read. A
        process that is not seen has left, unless all its devices are unread.
        """
        present: dict[Key, Sighting] = {}
        for key, devices in seen.items():
            before = self.present.get(key)
            if before is None or now_s - before.last_s > LONGEST_GAP_S:
                done = Step.WARN if key in self._warned else None
                before = Sighting(now_s, now_s, frozenset(), done, now_s)
            present[key] = replace(before, last_s=now_s, devices=frozenset(devices))
        for key, before in self.present.items():
            hidden = before.devices <= set(unread) and now_s - before.last_s <= LONGEST_GAP_S
            if key not in present and hidden:
                present[key] = before
        self.present = present
        found = ((key, due(self.config, present[key], now_s)) for key in seen)
        return [(key, step) for key, step in found if step is not None]

    def record(self, key: Key, step: Step, now_s: float) -> None:
        """Record that this step was taken at `now_s`."""
        self.present[key] = replace(self.present[key], done=step, done_s=now_s)
        if len(self._warned) >= _MOST_WARNED:
            self._warned.clear()
        self._warned.add(key)
