"""The rows of `status`: which jobs, in which order, and how many are in which state.

A table is gathered once for all clients that ask the same, until a job changes. While it is
gathered, each client that waits for it does the next piece in its own turn (`InLine`): so none
waits for another's turn. If the client that asked first leaves, the next one begins anew. A page
then costs only its own rows. The record of an ended job is read from the store only when its row is
shown.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from radrm.core.records import Job
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.daemon.serving.turns import InLine, Pace, Work
from radrm.daemon.views.arguments import (
    MAX_FINISHED,
    Words,
    asks_for_ended,
    filters,
    references,
    states,
)
from radrm.daemon.views.references import References
from radrm.daemon.views.rows import Collapsing, Line, Row, job_id
from radrm.documents.jobs import Job as JobDocument
from radrm.host.storage.store import Store

_MOST_TABLES = 16
_MOST_LINES = 400_000
"""Most lines of all kept tables together."""
_MOST_USERS = 1000
_GOOD_S = 1.0
"""Seconds for which a long table is reused after a job has changed."""
_LONG = 2000
"""Lines from which on a table is long, because gathering it takes long."""
_SHOWN_S = 0.2
"""Seconds for which the document of a row is reused while no job changes."""
_MOST_SHOWN = 500
_BATCH = 500
_STATES_AT_ONCE = 500


class Table(Struct, dict=True):
    """`lines`: one for each job, in the order of display. `collapsed`: the same, with waiting
    elements of an array that are alike in one row. `states`: the jobs in each state. `since`:
    when the table was gathered."""

    lines: list[Line] = field(default_factory=list)
    collapsed: list[Line] = field(default_factory=list)
    states: Counter[JobState] = field(default_factory=Counter)
    since: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        return {state.value: count for state, count in self.states.items()}

    @cached_property
    def by_id(self) -> list[Line]:
        return sorted(self.lines, key=job_id)

    def after(self, last_id: int) -> list[Line]:
        """The lines of the jobs with a higher id than this, by id."""
        return self.by_id[bisect_right(self.by_id, last_id, key=job_id) :]

    def add(self, line: Line, state: JobState) -> None:
        self.lines.append(line)
        self.states[state] += 1


class Tables:
    """Keeps tables until a job changes.

    A long table is kept for a second more, but not for a user who has given a command since:
    users see the effect of their commands. (The rows themselves always show the current job.)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Any, tuple[int, Table]] = {}
        """Each table with the version of the jobs at which it was gathered."""
        self._line = InLine()
        """Those that are being gathered: of jobs that are not named."""
        self._commanded: dict[int, int] = {}
        """The version of the jobs at each user's last command."""
        self._shown: dict[tuple[int, int, int | None, int], JobDocument] = {}
        self._shown_at = (-1, 0.0)
        """The version of the jobs, and the time, of the oldest document in `_shown`."""

    def note_command(self, scheduler: Scheduler, uid: int) -> None:
        """Note that a user has given a command or submitted a job."""
        if len(self._commanded) >= _MOST_USERS:
            self._known.clear()
            self._commanded.clear()
        self._commanded[uid] = scheduler.snapshot.jobs_version
        self._shown.clear()

    def document(self, row: Row, version: int, make: Callable[[], JobDocument]) -> JobDocument:
        """The document of a row. It is made once for the requests of one moment."""
        now = self._clock()
        shown, since = self._shown_at
        if (
            shown != version
            or not since <= now < since + _SHOWN_S
            or len(self._shown) >= _MOST_SHOWN
        ):
            self._shown.clear()
            self._shown_at = (version, now)
        key = (row.job.id, row.job.run, row.position, row.count)
        document = self._shown.get(key)
        if document is None:
            document = self._shown[key] = make()
        return document

    def get(self, scheduler: Scheduler, store: Store, words: Words, uid: int) -> Work[Table]:
        """The table that this request asks for. Raises `RadrmError` for an unusable argument and
        for a job that does not exist."""
        jobs = tuple(references(words)) if words.get("jobs") else ()
        wanted = states(words)
        key = (jobs, uid if jobs else None, words.get("user"), wanted, bool(words.get("all")))
        keep = filters(words)

        def gathered() -> Work[Table]:
            version = scheduler.snapshot.jobs_version
            table = self._good(version, key, uid)
            if table is None:
                gathering = _Gathering(scheduler, store, keep, wanted, asks_for_ended(words))
                yield from gathering.all(jobs, uid)
                table = gathering.table
                table.since = self._clock()
                self._keep(version, key, table)
            return table

        known = self._good(scheduler.snapshot.jobs_version, key, uid)
        if known is not None:
            return known
        return (yield from gathered() if jobs else self._line.do(gathered(), uid))

    def _good(self, version: int, key: Any, uid: int) -> Table | None:
        gathered, table = self._known.get(key, (-1, None))
        if table is None or gathered == version:
            return table
        fresh = self._clock() < table.since + _GOOD_S and gathered >= self._commanded.get(uid, 0)
        return table if len(table.lines) > _LONG and fresh else None

    def _keep(self, version: int, key: Any, table: Table) -> None:
        """Keep a table and drop the old ones."""
        now = self._clock()
        self._known = {
            k: (gathered, kept)
            for k, (gathered, kept) in self._known.items()
            if k != key and (gathered == version or now < kept.since + _GOOD_S)
        }
        lines = len(table.lines) + sum(len(kept.lines) for _, kept in self._known.values())
        if len(self._known) < _MOST_TABLES and lines <= _MOST_LINES:
            self._known[key] = (version, table)


_BY_ID = {id(state): state for state in JobState}
"""For counting by `id`: the hash of an enumeration takes ten times as long."""


class _Gathering:
    def __init__(
        self,
        scheduler: Scheduler,
        store: Store,
        keep: Callable[[Job], bool] | None,
        wanted: frozenset[JobState],
        ended: bool,
    ) -> None:
        self.table = Table()
        self._scheduler = scheduler
        self._store = store
        self._keep = keep
        self._wanted = wanted
        self._ended = ended
        self._pace = Pace()

    def all(self, words: Sequence[str], uid: int) -> Work[None]:
        """Gather the jobs that are named; without names the unfinished ones, and the latest that
        have ended if the request asks for these, too."""
        if words:
            yield from self.named(words, uid)
        else:
            yield from self.unfinished()
            if self._ended:
                yield from self.finished(self._store.finished(MAX_FINISHED))
                self.table.lines.sort(key=job_id)
        collapsing = Collapsing(self.table.collapsed)
        for i in range(0, len(self.table.lines), _BATCH):
            collapsing.add(self.table.lines[i : i + _BATCH])
            if self._pace.spent:
                yield from self._pace.rest()

    def named(self, words: Iterable[str], uid: int) -> Work[None]:
        """Gather the jobs that are named, each once, in the order of the words."""
        look_up = References(self._scheduler, self._store, uid, ended=self._ended)
        found = yield from look_up.find(list(words))
        missing = next((each.error for each in found if each.error is not None), None)
        if missing is not None:
            raise missing
        ended: list[int] = []
        ids = list(dict.fromkeys(i for each in found for i in each.ids))
        for each in ids:
            snapshot = self._scheduler.snapshot
            job = snapshot.job(each)
            if job is None:
                ended.append(each)
            else:
                place = snapshot.position(job)
                self._add(job, None if place is None else place + 1)
            if self._pace.spent:
                yield from self._pace.rest()
        if ended:
            yield from self.finished(ended)
            order = {number: place for place, number in enumerate(ids)}
            self.table.lines.sort(key=lambda line: order[job_id(line)])

    def unfinished(self) -> Work[None]:
        """Gather the jobs with a live attempt by id, the queued jobs in queue order, then the
        jobs that stand aside."""
        snapshot = self._scheduler.snapshot
        jobs = [job for job, _ in snapshot.running]
        places: list[int | None] = [None] * len(jobs)
        for line in snapshot.lines:
            jobs += line
            places += range(1, len(line) + 1)
        jobs += snapshot.aside
        places += [None] * (len(jobs) - len(places))
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
        """Gather ended jobs. Only their states are read, unless the request names a user."""
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
