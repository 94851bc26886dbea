"""What a rule keeps of each job with servers and workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from radrm.core.records import Attempt
from radrm.core.view import View
from radrm.planners.servers.layout import Layout
from radrm.planners.servers.metering import Meter
from radrm.planners.servers.placing import layout_of

Lists = list[list[float]]
"""A layout as plain JSON."""

_MOST_PAST = 200
_MOST_DOUBLINGS = 5
_SERVERS_FAIL = 2
"""After so many refused resizes of the servers in a row their number counts as fixed."""


def as_lists(layout: Layout) -> Lists:
    """Return a layout as plain JSON; `Layout(*map(tuple, lists))` is the same."""
    return [list(layout.servers), list(layout.workers)]


def from_lists(lists: Lists) -> Layout:
    """Return a layout from plain JSON."""
    servers, workers = lists
    return Layout(tuple(servers), tuple(workers))


@dataclass(slots=True)
class Note:
    """What is known of one job, in fields that plain JSON can hold. Times are seconds since boot.

    `layout` is what the attempt `serial` was last seen with, since `changed_s`. `asked` is the
    layout that was asked for and is not settled yet. `changes` counts the changes of this attempt,
    `failures` those in a row that failed, `server_failures` those that would have changed the
    number of servers. `fixed`: that number cannot change. `refused`: why the last wish could not be
    proposed.
    """

    serial: int = 0
    layout: Lists = field(default_factory=list)
    changed_s: float = 0.0
    changes: int = 0
    asked: Lists | None = None
    failures: int = 0
    server_failures: int = 0
    retry_s: float = 0.0
    fixed: bool = False
    refused: str | None = None
    meter: dict[str, Any] = field(default_factory=dict)

    def begin(self, attempt: Attempt) -> None:
        """Follow a new attempt. What is known of the job stays."""
        self.serial, self.changes, self.asked = attempt.serial, 0, None
        self.failures = self.server_failures = 0
        self.retry_s, self.refused = 0.0, None

    def seen(self, layout: Layout, now_s: float) -> None:
        """Begin anew to measure: the job has another layout, or might have had."""
        self.layout, self.changed_s, self.meter = as_lists(layout), now_s, {}

    def settled(self, done: bool) -> None:
        """Note that what was asked for is there, or has failed."""

    @property
    def word(self) -> str:
        """What is done with the job now, for `radrm status`."""
        raise NotImplementedError

    def follow(self, attempt: Attempt, now_s: float, interval_s: float) -> None:
        """Compare what the job has with what was asked for, once nothing is under way."""
        has = layout_of(attempt.placement)
        if self.serial != attempt.serial:
            self.begin(attempt)
            self.seen(has, now_s)
            return
        if self.asked is not None and not is_busy(attempt):
            wanted, self.asked = from_lists(self.asked), None
            done = not has.differs(wanted, 0.0)
            self._count(done, len(has.servers) != len(wanted.servers))
            if not done:
                self.retry_s = now_s + interval_s * 2 ** min(self.failures - 1, _MOST_DOUBLINGS)
            self.settled(done)
            self.seen(has, now_s)
        elif self.layout != as_lists(has):
            self.seen(has, now_s)  # by its user, or by another planner

    def _count(self, done: bool, of_servers: bool) -> None:
        if done:
            self.changes, self.failures, self.server_failures = self.changes + 1, 0, 0
            return
        self.failures += 1
        if of_servers:
            self.server_failures += 1
            self.fixed = self.fixed or self.server_failures >= _SERVERS_FAIL

    def plain(self) -> dict[str, Any]:
        """Return it as a planner's state can hold it: without what is as at first."""
        first = type(self)()
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value != getattr(first, name)}

    @property
    def counted(self) -> Meter:
        """Its meter."""
        return Meter(**self.meter)

    def keep(self, meter: Meter) -> None:
        """Keep its meter."""
        self.meter = {each.name: getattr(meter, each.name) for each in fields(meter)}


def is_busy(attempt: Attempt) -> bool:
    """Return whether a change of an attempt's size, shares or saved work is under way."""
    return attempt.target is not None or bool(attempt.pending)


@dataclass(slots=True)
class Memory:
    """All that a rule keeps: when it last looked, a note of each job, and what runs have taught.

    `past` is by fingerprint; of more than `_MOST_PAST` entries the oldest go.
    """

    boot: str | None = None
    looked_s: float | None = None
    notes: dict[int, Note] = field(default_factory=dict)
    past: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None, view: View, make: Callable[..., Note]) -> Memory:
        """Return what was kept. After a reboot all attempts and times are new."""
        kept, boot = kept or {}, view.now.boot
        notes = {
            int(job_id): make(**note)
            for job_id, note in kept.get("jobs", {}).items()
            if view.job(int(job_id)) is not None
        }
        past = dict(kept.get("past", {}))
        if kept.get("boot") != boot:
            for note in notes.values():
                note.serial = 0
            return cls(boot, None, notes, past)
        return cls(boot, kept.get("looked_s"), notes, past)

    def learn(self, key: str, entry: Any) -> None:
        """Keep what a run has taught, as the newest entry."""
        self.past.pop(key, None)
        self.past[key] = entry
        while len(self.past) > _MOST_PAST:
            del self.past[next(iter(self.past))]

    def plain(self) -> dict[str, Any]:
        """Return it as a planner's state can hold it."""
        return {
            "boot": self.boot,
            "looked_s": self.looked_s,
            "jobs": {str(job_id): note.plain() for job_id, note in self.notes.items()},
            "past": self.past,
        }
