"""The rows of `status`: which jobs, in which order, and how many are in which state.

They are gathered once for all who ask the same until a job changes; a page then costs what its
rows cost. What has ended stays in the store until its row is shown.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from radrm.core.records import Job
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.asked import MAX_FINISHED, Words, filters, references, states
from radrm.daemon.views.documents import Row, collapsed
from radrm.daemon.views.references import References
from radrm.host.storage.store import Store

_MOST_TABLES = 16
_MOST_LINES = 400_000
"""Of all the tables that are kept."""
_MOST_USERS = 1000
_GOOD_S = 1.0
_LONG = 2000
"""Lines of a table that takes long to gather."""
_BATCH = 500
_STATES_AT_ONCE = 500

Line: TypeAlias = "Row | int"
"""An unfinished job's row, or the id of a job that has ended."""


@dataclass
class Table:
    """`lines` as people read them, an element of an array each; `counts` by state."""

    lines: list[Line] = field(default_factory=list)
    states: Counter[JobState] = field(default_factory=Counter)
    since: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        return {state.value: count for state, count in self.states.items()}

    @cached_property
    def collapsed(self) -> list[Line]:
        """With the waiting elements of an array in one line where they are alike."""
        return collapsed(self.lines)

    @cached_property
    def by_id(self) -> list[Line]:
        return sorted(self.lines, key=job_id)

    def after(self, last_id: int) -> list[Line]:
        """The lines of the jobs with a higher id than this, by id."""
        return self.by_id[bisect_right(self.by_id, last_id, key=job_id) :]

    def add(self, line: Line, state: JobState) -> None:
        self.lines.append(line)
        self.states[state] += 1


def job_id(line: Line) -> int:
    return line if isinstance(line, int) else line.job.id


class Tables:
    """The tables that were asked for, as long as they are good: until a job changes. A long
    one is good for a second more, but not for a user who has ordered something since: he sees
    what he has done. (Its rows are shown as they then are.)"""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Any, tuple[int, Table]] = {}
        """With the version of the jobs that they were gathered at."""
        self._ordered: dict[int, int] = {}
        """At which version of the jobs a user has changed something last."""
        self.built = 0
        """How many were gathered so far."""

    def ordered(self, scheduler: Scheduler, uid: int) -> None:
        """A user has given an order, or submitted something."""
        if len(self._ordered) >= _MOST_USERS:
            self._known.clear()
            self._ordered.clear()
        self._ordered[uid] = scheduler.state.jobs_version

    def _good(self, version: int, key: Any, uid: int) -> Table | None:
        gathered, table = self._known.get(key, (-1, None))
        if table is None or gathered == version:
            return table
        fresh = self._clock() < table.since + _GOOD_S and gathered >= self._ordered.get(uid, 0)
        return table if len(table.lines) > _LONG and fresh else None

    def _keep(self, version: int, key: Any, table: Table) -> None:
        """Keep a table, and throw the old ones away."""
        now = self._clock()
        self._known = {
            k: (gathered, kept)
            for k, (gathered, kept) in self._known.items()
            if k != key and (gathered == version or now < kept.since + _GOOD_S)
        }
        lines = len(table.lines) + sum(len(kept.lines) for _, kept in self._known.values())
        if len(self._known) < _MOST_TABLES and lines <= _MOST_LINES:
            self._known[key] = (version, table)

    def of(self, scheduler: Scheduler, store: Store, words: Words, uid: int) -> Work[Table]:
        """The table that these words ask for. Raises `RadrmError` for words that cannot be read,
        and for a job that there is not."""
        state = scheduler.state
        jobs = tuple(references(words)) if words.get("jobs") else ()
        wanted = states(words)
        key = (jobs, uid if jobs else None, words.get("user"), wanted, bool(words.get("all")))
        keep = filters(words)
        version = state.jobs_version
        table = self._good(version, key, uid)
        if table is not None:
            return table
        self.built += 1
        gathering = _Gathering(scheduler, store, keep, wanted)
        if jobs:
            yield from gathering.named(jobs, uid)
        else:
            yield from gathering.unfinished()
            if words.get("all") or any(each.final for each in wanted):
                yield from gathering.finished(store.finished(MAX_FINISHED))
                gathering.table.lines.sort(key=job_id)
        gathering.table.since = self._clock()
        self._keep(version, key, gathering.table)
        return gathering.table


_BY_ID = {id(state): state for state in JobState}
"""An enumeration's own hash takes ten times as long."""


class _Gathering:
    def __init__(
        self,
        scheduler: Scheduler,
        store: Store,
        keep: Callable[[Job], bool] | None,
        wanted: frozenset[JobState],
    ) -> None:
        self.table = Table()
        self._scheduler = scheduler
        self._state = scheduler.state
        self._store = store
        self._keep = keep
        self._wanted = wanted
        self._pace = Pace()

    def named(self, words: Iterable[str], uid: int) -> Work[None]:
        """The jobs that are named, each once, in the order of the words."""
        found = yield from References(self._scheduler, self._store, uid).find(list(words))
        missing = next((each.error for each in found if each.error is not None), None)
        if missing is not None:
            raise missing
        ended: list[int] = []
        ids = list(dict.fromkeys(i for each in found for i in each.ids))
        for each in ids:
            job = self._state.jobs.get(each)
            if job is None:
                ended.append(each)
            else:
                place = self._state.waiting.of(job).position(each)
                self._add(job, None if place is None else place + 1)
            if self._pace.spent:
                yield from self._pace.rest()
        if ended:
            yield from self.finished(ended)
            order = {number: place for place, number in enumerate(ids)}
            self.table.lines.sort(key=lambda line: order[job_id(line)])

    def unfinished(self) -> Work[None]:
        """Those with an attempt, by id; in order of service those in line; then the others."""
        state = self._state
        live, lines = sorted(state.attempts), [list(line) for line in state.waiting.lines]
        left = state.jobs.keys() - live
        for line in lines:
            left.difference_update(line)
        jobs = [state.jobs[i] for i in live]
        places: list[int | None] = [None] * len(live)
        for line in lines:
            jobs += map(state.jobs.__getitem__, line)
            places += range(1, len(line) + 1)
        jobs += map(state.jobs.__getitem__, sorted(left))
        places += [None] * len(left)
        for i in range(0, len(jobs), _BATCH):
            some = list(map(Row, jobs[i : i + _BATCH], places[i : i + _BATCH]))
            if self._keep is not None:
                some = [row for row in some if self._keep(row.job)]
            self.table.lines += some
            for state_, count in Counter(id(row.job.state) for row in some).items():
                self.table.states[_BY_ID[state_]] += count
            if self._pace.spent:
                yield from self._pace.rest()

    def finished(self, ids: list[int]) -> Work[None]:
        """Of them only the states are read, unless it is asked whose they are."""
        for i in range(0, len(ids), _STATES_AT_ONCE):
            some = ids[i : i + _STATES_AT_ONCE]
            known = self._store.states(some)
            for each in some:
                state = known.get(each)
                if state is not None and self._keeps(each, state):
                    self.table.add(each, state)
                if self._pace.spent:
                    yield from self._pace.rest()

    def _keeps(self, each: int, state: JobState) -> bool:
        if self._keep is None or (self._wanted and state not in self._wanted):
            return self._keep is None
        job = self._store.job(each)
        return job is not None and self._keep(job)

    def _add(self, job: Job, place: int | None) -> None:
        if self._keep is None or self._keep(job):
            self.table.add(Row(job, place), job.state)
