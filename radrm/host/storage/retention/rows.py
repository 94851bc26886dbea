"""Remove what has ended long ago from the store, while the clock can be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from radrm.core.records import Instant
from radrm.core.words import JobState
from radrm.host.storage.database import DAMAGE, Database, encoded

# ------------------------------------------------------------------
# Whether the clock can be believed: nothing is removed by age right after it was set.
#
# Theory of operation. Each sweep notes the time on both clocks. The date is *steady* while it runs
# as the time since boot does. Across a reboot only the date is known: it must not go back, nor be
# more than a week later. A clock that was set, or a server that was off for longer, starts a new
# steady time. By age radrm removes only after a day of it. So a wrong date removes nothing, if
# somebody corrects it within a day.


STEP_S = 3600.0
"""Difference of the two clocks between two sweeps that is no correction of the date's drift."""
LONGEST_OFF_S = 7 * 86400.0
TRUSTED_AFTER_S = 86400.0


class Steady(Struct, frozen=True):
    """The date has been steady since `since_s` (epoch seconds), as seen last at `last`."""

    since_s: float
    last: Instant

    def seen(self, now: Instant) -> Steady:
        """Return this with the time of a new sweep."""
        ran_s, passed_s = now.since(self.last), now.wall_s - self.last.wall_s
        if ran_s is not None:
            steady = abs(passed_s - ran_s) <= STEP_S
        else:
            steady = -STEP_S <= passed_s <= LONGEST_OFF_S
        return Steady(self.since_s if steady else now.wall_s, now)

    @property
    def trusted(self) -> bool:
        """True once the date has been steady for a day."""
        return self.last.wall_s - self.since_s >= TRUSTED_AFTER_S


# ------------------------------------------------------------------
# Removes finished jobs from the store, with their attempts, submissions, environments and edits.
#
# Theory of operation
# -------------------
# A piece is one transaction of at most `AT_ONCE` jobs, so a kill leaves all of a job or nothing.
#
# Invariants:
# - Only what has ended goes. An array goes once its last element is old enough, its first
#   element last. A job whose attempt still has a folder stays: something of it may run. So does one
#   whose envelope lies in the spool: without its row it would become a second job.
# - No id and no serial is given twice: the sequences keep the highest ones. `removed` has the ids
#   that have gone, as ranges, so that users are told that the job has ended.
# - Estimators lose nothing that they read. A run is kept, with its attempt in `learned`, unless
#   `RUNS_KEPT` newer ones of the same program and user are there. `MOST_LEARNED` of them are kept.
# - A power failure may bring back what was removed last: no piece is synced on its own.


AT_ONCE = 100
"""Jobs of one transaction."""
RUNS_KEPT = 20
"""So many runs of one program the estimators read (`SAME_RUNS`)."""
MOST_LEARNED = 50_000
"""About 2 KiB each. The oldest go."""

_OLDEST = """
SELECT id, ticket, array_id, name, ended_s FROM jobs WHERE final AND uid = ?1
    AND ended_s >= ?2 AND ended_s < ?3 AND (ended_s > ?2 OR id > ?4) ORDER BY ended_s, id LIMIT ?5
"""
_UNFINISHED = tuple(state.value for state in JobState if not state.final)
_ARRAY_LIVES = f"""
SELECT 1 FROM jobs WHERE array_id = ? AND state IN ({",".join("?" * len(_UNFINISHED))}) LIMIT 1
"""
_ARRAY_END = "SELECT max(ended_s) FROM jobs WHERE final AND array_id IS NOT NULL AND array_id = ?"
_NEWEST = """
SELECT ended_s FROM jobs WHERE final AND uid = ? ORDER BY ended_s DESC LIMIT 1 OFFSET ?
"""


class Place(Struct, frozen=True):
    """Where a walk over the ended jobs of a user stands, by end (epoch seconds) and id."""

    ended_s: float = -1e15
    job_id: int = 0


class Rows:
    """Used by the store's one thread. `kept_for` says in words for how long jobs are kept.

    All methods that write raise `StoreError`.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self.kept_for = ""
        self.has_folder: Callable[[int], bool] = lambda _: False
        """Whether an attempt's folder is still there."""
        self.has_envelope: Callable[[str], bool] = lambda _: False
        """Whether the envelope of a ticket still lies in the spool."""

    # ------------------------------------------------------------- asking

    def was_removed(self, job_id: int) -> bool:
        """True for a job, or an array by its id, that has ended and has gone or is going."""
        query = "SELECT last FROM removed WHERE first <= ? ORDER BY first DESC LIMIT 1"
        row = self._db.execute(query, (job_id,)).fetchone()
        return row is not None and job_id <= row[0]

    def removed_until(self) -> float | None:
        """When the latest of all removed jobs ended (epoch seconds); None if none is removed.

        Of times after that everything is still there.
        """
        row = self._db.execute("SELECT record FROM marks WHERE name = 'removed'").fetchone()
        try:
            return msgspec.json.decode(row[0], type=float) if row is not None else None
        except DAMAGE:
            return None

    def users(self) -> Iterator[int]:
        """The users who have finished jobs."""
        query = "SELECT uid FROM jobs WHERE final AND uid > ? ORDER BY uid LIMIT 1"
        uid = -1
        while (row := self._db.execute(query, (uid,)).fetchone()) is not None:
            uid = row[0]
            yield uid

    def end_of_newest(self, uid: int, count: int) -> float | None:
        """When the last but `count` of a user's finished jobs ended; None if there are fewer."""
        row = self._db.execute(_NEWEST, (uid, count)).fetchone()
        return None if row is None else row[0]

    # ------------------------------------------------------------- removing

    def remove(
        self, uid: int, before_s: float, place: Place, spent: Callable[[], bool]
    ) -> tuple[int, Place | None]:
        """Remove the oldest jobs of a user that ended before then (epoch seconds), from `place`
        on, until the time of a piece is `spent`. Returns how many, and where to go on; None at the
        end. The whole of an array counts as ended when its last element did."""
        begin = place.ended_s, before_s, place.job_id
        found = self._db.execute(_OLDEST, (uid, *begin, AT_ONCE)).fetchall()
        count, last_serial, until_s = 0, 0, float("-inf")
        if not found:
            return 0, None
        with self._db.not_synced(), self._db.writing("retention"):
            for job_id, ticket, array_id, name, ended_s in found:
                if array_id is None:
                    serial = self._remove_job(job_id, ticket, name)
                elif self._array_stays(array_id, before_s):
                    serial = None
                else:
                    (last_s,) = self._db.execute(_ARRAY_END, (array_id,)).fetchone()
                    removed, serial = self._remove_elements(array_id, ticket, spent)
                    until_s = max(until_s, last_s) if removed else until_s
                    count, last_serial = count + removed, max(last_serial, serial)
                    if removed:
                        break  # from the same place again, until no element is left
                    serial = None
                count += serial is not None
                until_s = max(until_s, ended_s) if serial is not None else until_s
                last_serial = max(last_serial, serial or 0)
                place = Place(ended_s, job_id)
                if spent():
                    break
            self._keep_sequence(last_serial)
            self._note_until(until_s)
        return count, place

    def _note_until(self, ended_s: float) -> None:
        if ended_s > (self.removed_until() or float("-inf")):
            query = "INSERT OR REPLACE INTO marks VALUES ('removed', ?)"
            self._db.execute(query, (encoded(ended_s),))

    def _array_stays(self, array_id: int, before_s: float) -> bool:
        if self._db.execute(_ARRAY_LIVES, (array_id, *_UNFINISHED)).fetchone() is not None:
            return True
        (ended_s,) = self._db.execute(_ARRAY_END, (array_id,)).fetchone()
        return ended_s is None or ended_s >= before_s

    def _remove_elements(
        self, array_id: int, ticket: str, spent: Callable[[], bool]
    ) -> tuple[int, int]:
        """Remove the last elements of an array; how many, and their highest serial."""
        self._note_removed(array_id)
        query = "SELECT id, name FROM jobs WHERE array_id = ? ORDER BY array_index DESC LIMIT ?"
        count, last_serial = 0, 0
        for job_id, name in self._db.execute(query, (array_id, AT_ONCE)).fetchall():
            serial = self._remove_job(job_id, ticket, name)
            count += serial is not None
            last_serial = max(last_serial, serial or 0)
            if spent() and count:
                break
        return count, last_serial

    def _remove_job(self, job_id: int, ticket: str, name: str) -> int | None:
        """Remove a job and what only it needs. Returns its highest serial (0: no attempt); None
        if it stays."""
        execute = self._db.execute
        query = "SELECT serial, live FROM attempts WHERE job_id = ?"
        attempts = execute(query, (job_id,)).fetchall()
        if any(live or self.has_folder(serial) for serial, live in attempts):
            return None
        if self.has_envelope(ticket):
            return None
        for serial, _ in attempts:
            self._keep_run(serial, name)
        execute("DELETE FROM attempts WHERE job_id = ?", (job_id,))
        execute("DELETE FROM ended_runs WHERE job_id = ?", (job_id,))
        execute("DELETE FROM notices WHERE job_id = ?", (job_id,))
        execute("DELETE FROM outer_jobs WHERE job_id = ?", (job_id,))
        (edits,) = execute("SELECT edits FROM jobs WHERE id = ?", (job_id,)).fetchone()
        execute("DELETE FROM jobs WHERE id = ?", (job_id,))
        if edits is not None:
            execute(
                "DELETE FROM edits WHERE digest = ?1 "
                "AND NOT EXISTS (SELECT 1 FROM jobs WHERE edits = ?1)",
                (edits,),
            )
        if execute("SELECT 1 FROM jobs WHERE ticket = ?", (ticket,)).fetchone() is None:
            self._remove_submission(ticket)
        self._note_removed(job_id)
        return max((serial for serial, _ in attempts), default=0)

    def _keep_run(self, serial: int, name: str) -> None:
        """Keep the attempt of a run that estimators may read; else remove the run."""
        execute = self._db.execute
        query = "SELECT fingerprint, uid FROM runs WHERE serial = ?"
        run = execute(query, (serial,)).fetchone()
        if run is None:
            return
        newer = (
            "SELECT count(*) FROM (SELECT 1 FROM runs "
            "WHERE fingerprint = ? AND uid = ? AND serial > ? LIMIT ?)"
        )
        (count,) = execute(newer, (*run, serial, RUNS_KEPT)).fetchone()
        if count >= RUNS_KEPT:
            execute("DELETE FROM runs WHERE serial = ?", (serial,))
        else:
            execute(
                "INSERT OR REPLACE INTO learned SELECT serial, ?, record FROM attempts "
                "WHERE serial = ?",
                (name, serial),
            )

    def _remove_submission(self, ticket: str) -> None:
        execute = self._db.execute
        query = "SELECT environment FROM submissions WHERE ticket = ?"
        (blob,) = execute(query, (ticket,)).fetchone()
        execute("DELETE FROM submissions WHERE ticket = ?", (ticket,))
        query = "SELECT 1 FROM submissions WHERE environment = ? LIMIT 1"
        if execute(query, (blob,)).fetchone() is None:
            execute("DELETE FROM blobs WHERE id = ?", (blob,))

    def _note_removed(self, job_id: int) -> None:
        """Add an id to the ranges."""
        if self.was_removed(job_id):
            return
        execute = self._db.execute
        query = "SELECT first, last FROM removed WHERE first <= ? ORDER BY first DESC LIMIT 1"
        before = execute(query, (job_id,)).fetchone()
        after = execute(query, (job_id + 1,)).fetchone()
        first = before[0] if before is not None and before[1] == job_id - 1 else job_id
        last = after[1] if after is not None and after[0] == job_id + 1 else job_id
        execute("DELETE FROM removed WHERE first = ?", (job_id + 1,))
        execute("INSERT OR REPLACE INTO removed VALUES (?, ?)", (first, last))

    def _keep_sequence(self, serial: int) -> None:
        """Have no attempt get a serial up to this one. (SQLite keeps the sequence of jobs.)"""
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'attempts'"
        row = self._db.execute(query).fetchone()
        if row is None:
            self._db.execute("INSERT INTO sqlite_sequence VALUES ('attempts', ?)", (serial,))
        elif row[0] < serial:
            self._db.execute(
                "UPDATE sqlite_sequence SET seq = ? WHERE name = 'attempts'", (serial,)
            )

    def forget_learned(self) -> bool:
        """Remove the oldest runs without a job above the limit; False when none is above it."""
        (count,) = self._db.execute("SELECT count(*) FROM learned").fetchone()
        some = min(count - MOST_LEARNED, AT_ONCE)
        if some <= 0:
            return False
        query = "SELECT serial FROM learned ORDER BY serial LIMIT ?"
        serials = [(serial,) for serial in self._db.ids(query, some)]
        with self._db.not_synced(), self._db.writing("retention"):
            self._db.execute_many("DELETE FROM learned WHERE serial = ?", serials)
            self._db.execute_many("DELETE FROM runs WHERE serial = ?", serials)
        return True

    def give_back(self, pages: int, keep: int) -> bool:
        """Give free pages back to the disk, all but `keep`; False when there are no more."""
        some = min(pages, self._db.free_pages - keep)
        if some > 0:
            with self._db.not_synced():
                self._db.give_back(some)
        return some > 0

    # ------------------------------------------------------------- the clock

    def steady(self) -> Steady | None:
        """What the last sweep has noted of the clock; None if that cannot be read."""
        row = self._db.execute("SELECT record FROM marks WHERE name = 'clock'").fetchone()
        try:
            return msgspec.json.decode(row[0], type=Steady) if row is not None else None
        except DAMAGE:
            return None

    def note_steady(self, steady: Steady) -> None:
        with self._db.not_synced(), self._db.writing("retention"):
            query = "INSERT OR REPLACE INTO marks VALUES ('clock', ?)"
            self._db.execute(query, (encoded(steady),))
