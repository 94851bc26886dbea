"""What is due to a process on a GPU that radrm did not start, and when.

Pure: it is told who was seen at what time, and says what is due. Who may be signalled, and
the signal itself, are `stranger_watch`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from radrm.config import StrangersConfig

WARN_AFTER_S = 5.0
"""Seconds for which it must have been seen before it is told of: a job's process may be on its
GPU a moment before it is known whose it is."""
LONGEST_GAP_S = 10.0
"""Seconds without a reading after which nobody can say any more that it was there throughout."""
_MOST_TOLD = 4096

Key = tuple[int, int]
"""A process of this boot: its pid and its start in clock ticks."""


class Step(str, Enum):
    """What is done about a stranger, in this order."""

    WARN = "warned"
    TERM = "TERM"
    KILL = "KILL"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A stranger that has been seen without a break from `since_s` to `last_s`.

    `done` is the last step that was taken, at `done_s`. Times are boot times.
    """

    since_s: float
    last_s: float
    devices: frozenset[str]
    done: Step | None = None
    done_s: float = 0.0


def due(config: StrangersConfig, seen: Sighting, now_s: float) -> Step | None:
    """The next step, if its time has come. One at a time, and none is left out."""
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
    """The strangers that are there now, and since when."""

    config: StrangersConfig
    there: dict[Key, Sighting] = field(default_factory=dict)
    _told: set[Key] = field(default_factory=set)
    """Who was told of, that they are so once only."""

    def look(
        self, now_s: float, seen: Mapping[Key, Collection[str]], unread: Collection[str] = ()
    ) -> list[tuple[Key, Step]]:
        """Who was on which devices at `now_s`, and which devices could not be read; what is due.

        Whoever is not seen is gone, and begins anew if he comes back; but on a device that
        cannot be read for a moment he is neither there nor gone.
        """
        there: dict[Key, Sighting] = {}
        for key, devices in seen.items():
            before = self.there.get(key)
            if before is None or now_s - before.last_s > LONGEST_GAP_S:
                done = Step.WARN if key in self._told else None
                before = Sighting(now_s, now_s, frozenset(), done, now_s)
            there[key] = replace(before, last_s=now_s, devices=frozenset(devices))
        for key, before in self.there.items():
            hidden = before.devices <= set(unread) and now_s - before.last_s <= LONGEST_GAP_S
            if key not in there and hidden:
                there[key] = before
        self.there = there
        found = ((key, due(self.config, there[key], now_s)) for key in seen)
        return [(key, step) for key, step in found if step is not None]

    def took(self, key: Key, step: Step, now_s: float) -> None:
        """This was done at `now_s`."""
        self.there[key] = replace(self.there[key], done=step, done_s=now_s)
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told.add(key)
