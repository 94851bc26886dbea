"""Sums over what has been, by user, group, job, GPU or day: `radrm report`.

Every user sees the sums of all users, as in `radrm limits`, and every job, as in `radrm status`.
All figures are of the same time, in whole hours, as the prices of energy are.

Each row and the total are added up on their own. The rows add up to the total, but by GPU the
counts of jobs do not: a job with two GPUs counts on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from radrm.core.words import Outcome
from radrm.daemon.answers.past.energy import (
    COLUMNS,
    MOST_ROWS,
    by_index,
    called,
    day_of,
    energy_sums,
    whole_hours,
)
from radrm.daemon.answers.past.gather import Figures, Key, Rows, add_end, gather
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import Words
from radrm.daemon.views.device_documents import are_simulated
from radrm.daemon.views.documents import Document
from radrm.deadlines import Zone
from radrm.errors import UsageError
from radrm.host.storage.ended import PastAttempt, PastJob

_DAY_S = 86_400.0
_SOME = 1000
"""Rows that are looked at in a moment."""


class _Sums(Struct):
    """The sums of the time from `begin_s` until before `end_s` (epoch seconds)."""

    by: str
    zone: Zone
    begin_s: float
    end_s: float
    rows: Rows = field(default_factory=Rows)
    total: Figures = field(default_factory=Figures)

    def visit(self, job: PastJob, attempts: Sequence[PastAttempt]) -> Figures | None:
        """Count a job and its deaths; return what adds up its GPU time."""
        ended = job.ended is not None and self._has(job.ended.wall_s)
        deaths = [
            each
            for each in attempts
            if each.outcome is Outcome.OOM and each.ended and self._has(each.ended.wall_s)
        ]
        self.total.oom += len(deaths)
        if self.by == "day":
            if ended and job.ended is not None:
                add_end(job, self.total, self.rows.of(day_of(self.zone, job.ended.wall_s)))
            for each in deaths:
                if each.ended is not None:
                    self.rows.of(day_of(self.zone, each.ended.wall_s)).oom += 1
            return None
        if self.by == "gpu":
            if ended:
                devices = {device for each in attempts for device in each.devices}
                add_end(job, self.total, *map(self.rows.of, devices))
            for device in (device for each in deaths for device in each.devices):
                self.rows.of(device).oom += 1
            return None
        key: Key = {"user": job.spec.user, "group": job.spec.group, "job": job.id}[self.by]
        row = self.rows.of(key)
        row.user = job.spec.user
        row.oom += len(deaths)
        if ended:
            add_end(job, self.total, row)
        return row

    def held(self, device: str, at_s: float, seconds: float) -> None:
        """Add the time for which some job held a device."""
        self.total.gpu_s += seconds
        if self.by == "gpu":
            self.rows.of(device).gpu_s += seconds
        elif self.by == "day":
            self.rows.of(day_of(self.zone, at_s)).gpu_s += seconds

    def next_day_s(self, at_s: float) -> float:
        """Return when the next local day begins, or the clock changes for the summer."""
        local_s = self.zone.local_s(at_s)
        return min(at_s + _DAY_S - local_s % _DAY_S, self.zone.next_change_s(at_s))

    def _has(self, wall_s: float) -> bool:
        return self.begin_s <= wall_s < self.end_s


def report(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """What was used between two times, by user, group, job, GPU or day."""
    by = words.get("by")
    if not isinstance(by, str) or by not in COLUMNS:
        raise UsageError(f"the request takes one of {', '.join(COLUMNS)}")
    begin_s, end_s = whole_hours(loop, words)
    return (yield from loop.past.do(_report(loop, by, begin_s, end_s), uid))


def _report(loop: Loop, by: str, begin_s: int, end_s: float) -> Work[Document]:
    costs = loop.parts.costs
    found = _Sums(by, costs.zone, begin_s, end_s)
    now, read = loop.clock.now(), loop.store.ended.attempts
    held = yield from gather(loop, begin_s, end_s, now, found.visit, read)
    cut = {"next_cut": found.next_day_s} if by == "day" else {}
    yield from held.divide(of_device=found.held, **cut)
    energy = yield from energy_sums(loop, by, begin_s, end_s, found.rows, found.total)
    shown, more, left = yield from _largest(by, found.rows.found)
    documents: list[Document] = []
    pace = Pace()
    for key, each in shown:
        documents.append(_row(loop, by, key, each))
        yield from pace.rest_if_spent()
    idle = energy.idle
    return {
        "by": by,
        "since": float(begin_s),
        "until": end_s,
        "removed_until": loop.store.rows.removed_until(),
        "energy_since": energy.first_s,
        "currency": costs.currency,
        "pue": costs.pue,
        "gpus": len(loop.scheduler.snapshot.devices),
        "simulated": are_simulated(loop.scheduler.snapshot),
        "rows": by_index(documents),
        "more": {"rows": left, **more.document()},
        "idle": {"kwh": Figures(joules=idle.joules).document()["kwh"], "cost": idle.cost},
        "total": found.total.document(),
    }


def _largest(
    by: str, rows: dict[Key, Figures]
) -> Work[tuple[list[tuple[Key, Figures]], Figures, int]]:
    """Return the rows to show, the sum of the others, and how many they are.

    The latest days in their order; else the rows with the most GPU time first. `rows` is empty
    afterwards: freeing many of them at once would take long.
    """
    pace, more, left = Pace(), Figures(), 0
    best: list[tuple[Key, Figures]] = []
    while rows:
        some = [rows.popitem() for _ in range(min(_SOME, len(rows)))]
        best += [each for each in some if not each[1].empty]
        if by == "day":
            best.sort(key=lambda each: str(each[0]), reverse=True)
        else:
            best.sort(key=lambda each: (-each[1].gpu_s, -each[1].joules, -each[1].jobs))
        for _, each in best[MOST_ROWS:]:
            more.add(each)
        left += len(best[MOST_ROWS:])
        del best[MOST_ROWS:]
        yield from pace.rest_if_spent()
    return (best[::-1] if by == "day" else best), more, left


def _row(loop: Loop, by: str, key: Key, each: Figures) -> Document:
    """One row with what it is called. What is unknown of a job that was removed is null."""
    job, names = called(loop, by, key, each.user)
    found: dict[str, Any] = {by: key, **each.document()}
    if by == "job" and isinstance(key, int):
        if job is None:
            found |= dict.fromkeys(set(found) - {by, "kwh", "cost"})
        found["state"] = None if job is None else job.state.value
    return {**found, **names}
