"""Everything that must survive, in SQLite: the one truth about every job taken in.

Theory of operation. The core's records are kept whole, as JSON, with columns beside only where
they are searched. One step, or a batch of them, is one transaction, on disk before the daemon
acts on it. So a restart sees the state after some step, never half of one, and whatever was
done in the world was decided in it. Before a transaction that gives new numbers, `cover` has
them reserved in the home's marker: a number is never given twice, even if this file is lost.

Volatile records and energy (`core/decision.py`) cost no transaction of their own: the newest of
each record, and the sums of energy, wait in memory for the next one, or for `save_volatile`. A
kill loses what waits. A decision that saves the same record removes the waiting one, so no old
figure replaces a decision.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from radrm.core.decision import Decision, Record
from radrm.core.records import (
    Attempt,
    DeviceStatus,
    Job,
    Kept,
    Reservation,
    RuleState,
    UserReservation,
)
from radrm.core.words import JobState
from radrm.host.storage.database import Database, encoded
from radrm.host.storage.ended import EndedJobs
from radrm.host.storage.energy import EnergyBook
from radrm.host.storage.notices import Notices
from radrm.host.storage.retention.rows import Rows
from radrm.host.storage.runs import PastRuns, Run
from radrm.host.storage.submitted import Edits, Submission, Submissions

_LAST_SERIAL = """
SELECT max(coalesce((SELECT max(serial) FROM attempts), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'attempts'), 0))
"""


_ENDED = "CASE WHEN json_valid(record) THEN json_extract(record, '$.ended_s') IS NOT NULL END"
_FORGET_RESERVATIONS = f"DELETE FROM user_reservations WHERE id <= ? AND {_ENDED}"
_RESERVATIONS_KEPT = 1000
"""Of the reservations for users that have ended, those among the last so many ids are kept."""
_RUNS_KEPT = 1000
"""The latest earlier runs of a job that are kept."""

_INSTEAD = [
    statement
    for table, key in (("jobs", "id"), ("attempts", "serial"))
    for statement in (
        f"CREATE TEMP TABLE new_{table} AS SELECT * FROM main.{table} WHERE 0",
        f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} "
        f"WHERE {key} NOT IN (SELECT {key} FROM new_{table}) "
        f"UNION ALL SELECT * FROM new_{table}",
    )
]
"""Views of one connection, in which new rows stand in place of stored ones."""
_NEW_JOB = (
    "INSERT INTO new_jobs SELECT id, ticket, array_id, array_index, name, uid, ?, ?, ?, ?, edits "
    "FROM main.jobs WHERE id = ?"
)

Volatile: TypeAlias = dict[tuple[str, object], Record]
"""The newest volatile record of each job, attempt and rule that is not on disk yet."""


class Taken(Struct, frozen=True):
    """How many jobs were made of a submission of `uid`, and the id of the first."""

    uid: int
    jobs: int
    first_id: int


class Store:
    """One open database. Used by one thread only. Raises `StoreError`, with the next step."""

    def __init__(
        self,
        path: str,
        cover: Callable[[int, int], None] | None = None,
        alive: Callable[[], None] | None = None,
        read_only: bool = False,
    ) -> None:
        """`cover` hears the highest job id and serial of a transaction before it begins. `alive`
        is called again and again during long work. `read_only`: nothing can be written."""
        self.path = path
        self.check_home: Callable[[], None] = lambda: None
        """Raises `HomeLost` if the path leads to another file; the home sets it."""
        self._cover = cover
        self._db = Database(path, alive, read_only)
        self.submissions = Submissions(self._db)
        self.runs = PastRuns(self._db)
        self.energy = EnergyBook(self._db)
        self.notices = Notices(self._db)
        self.rows = Rows(self._db)
        self.ended = EndedJobs(self._db)
        self._volatile: Volatile = {}
        self._unsynced = False
        """Whether there is something for `sync`."""

    def close(self) -> None:
        self._db.close()

    # ------------------------------------------------------------- writing

    def save(
        self,
        decisions: Sequence[Decision],
        submissions: Iterable[Submission] = (),
        edits: Edits = (),
        runs: Sequence[Run] = (),
        synced: bool = True,
    ) -> None:
        """One transaction: all of it is on disk when this returns, or none of it. Not `synced`: a
        power failure may undo it until the next one, or `sync`, but nothing before it.

        A job is stored with, or after, the submission that has its ticket. `edits` are the
        options changed since, by the job's id; `runs` is what has been learned.
        """
        handed_in, changed = list(submissions), list(edits)
        volatile = _newest(self._volatile, decisions)
        if (
            not handed_in
            and not changed
            and not any(d.changed or d.dropped or d.warned for d in decisions)
        ):
            self._volatile = volatile
            self._note_energy(decisions)
            return
        self._cover_numbers(decisions)
        sync = contextlib.nullcontext() if synced else self._db.not_synced()
        with sync, self._db.writing("decisions"):
            for submission in handed_in:
                self.submissions.insert(submission)
            # A short job starts and ends in one transaction: of each, only the last is saved.
            newest = {_of(record): record for each in decisions for record in each.changed}
            for decision in decisions:
                for record in decision.changed:
                    last = newest.pop(_of(record), None)
                    if last is not None:
                        self._save_record(last)
                for owner, kind, device in decision.dropped:
                    self._db.execute(
                        "DELETE FROM reservations WHERE owner = ? AND kind = ? AND device = ?",
                        (owner, kind.value, device),
                    )
            for record in volatile.values():
                self._save_record(record)
            self.submissions.edit(changed)
            self.runs.insert(runs)
            self.energy.write()
            self.notices.note(decisions)
        self.check_home()  # else it is on no disk
        self._unsynced = not synced
        self._volatile = {}
        self.energy.written()
        self._note_energy(decisions)

    def sync(self) -> None:
        """Put on disk what `save` has not. Raises `StoreError`."""
        if self._unsynced:
            self._db.sync()
            self._unsynced = False

    def save_volatile(self) -> None:
        """Write the volatile records and the energy that wait, if there are any."""
        if self._volatile or self.energy.waits:
            with self._db.writing("volatile"):
                for record in self._volatile.values():
                    self._save_record(record)
                self.energy.write()
            self._volatile = {}
            self.energy.written()

    def _note_energy(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            self.energy.note(decision.energy)

    def _cover_numbers(self, decisions: Sequence[Decision]) -> None:
        if self._cover is None:
            return
        changed = [record for decision in decisions for record in decision.changed]
        job_id = max((r.id for r in changed if isinstance(r, Job)), default=0)
        serial = max((r.serial for r in changed if isinstance(r, Attempt)), default=0)
        self._cover(job_id, serial)

    def _save_record(self, record: Record) -> None:
        text = encoded(record)
        if isinstance(record, Job):
            array = record.array
            if record.run > 1:
                self._keep_run(record)
            self._db.execute(
                "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (id) DO UPDATE SET name = excluded.name, state = excluded.state, "
                "final = excluded.final, ended_s = excluded.ended_s, record = excluded.record",
                (
                    record.id,
                    record.ticket,
                    array.array_id if array else None,
                    array.index if array else None,
                    record.spec.name,
                    record.spec.uid,
                    record.state.value,
                    record.state.final,
                    record.ended.wall_s if record.ended else None,
                    text,
                ),
            )
            if record.outer is not None:
                self._db.execute(
                    "INSERT OR IGNORE INTO outer_jobs VALUES (?, ?)", (record.outer.name, record.id)
                )
        elif isinstance(record, Attempt):
            self._db.execute(
                "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?)",
                (record.serial, record.job_id, record.ended is None, text),
            )
        elif isinstance(record, Reservation):
            self._db.execute(
                "INSERT OR REPLACE INTO reservations VALUES (?, ?, ?, ?)",
                (record.owner, record.kind.value, record.device, text),
            )
        elif isinstance(record, UserReservation):
            row = record.id, text
            self._db.execute("INSERT OR REPLACE INTO user_reservations VALUES (?, ?)", row)
            self._db.execute(_FORGET_RESERVATIONS, (record.id - _RESERVATIONS_KEPT,))
        elif isinstance(record, DeviceStatus):
            self._db.execute("INSERT OR REPLACE INTO devices VALUES (?, ?)", (record.uuid, text))
        else:
            self._db.execute(
                "INSERT OR REPLACE INTO rules VALUES (?, ?, ?)", (record.kind, record.name, text)
            )

    def _keep_run(self, job: Job) -> None:
        """Keep the record of a job's end before its next run replaces it."""
        run = "coalesce(json_extract(record, '$.run'), 1)"
        ended = f"SELECT id, {run} AS run, record FROM jobs WHERE final"
        found = self._db.execute(
            f"INSERT OR IGNORE INTO ended_runs SELECT * FROM ({ended}) WHERE id = ? AND run < ?",
            (job.id, job.run),
        )
        if found.rowcount:
            oldest = job.run - _RUNS_KEPT
            self._db.execute(
                "DELETE FROM ended_runs WHERE job_id = ? AND run < ?", (job.id, oldest)
            )

    # ------------------------------------------------------------- reading

    def show_instead(self, records: Iterable[Job | Attempt]) -> None:
        """Have this connection read these records in place of the stored ones; write nothing."""
        for statement in _INSTEAD:
            self._db.execute(statement)
        for record in records:
            text = encoded(record)
            if isinstance(record, Job):
                ended_s = record.ended.wall_s if record.ended else None
                new = record.state.value, record.state.final, ended_s, text, record.id
                self._db.execute(_NEW_JOB, new)
            else:
                row = record.serial, record.job_id, record.ended is None, text
                self._db.execute("INSERT INTO new_attempts VALUES (?, ?, ?, ?)", row)

    def kept(self) -> Kept:
        """What a new scheduler starts from."""
        read = self._db.records
        return Kept(
            jobs=read(Job, "SELECT record FROM jobs WHERE NOT final ORDER BY id"),
            attempts=read(Attempt, "SELECT record FROM attempts WHERE live ORDER BY serial"),
            reservations=read(Reservation, "SELECT record FROM reservations"),
            devices=read(DeviceStatus, "SELECT record FROM devices"),
            rule_states=read(RuleState, "SELECT record FROM rules"),
            next_serial=self.next_serial(),
            user_reservations=read(
                UserReservation,
                f"SELECT record FROM user_reservations WHERE NOT coalesce({_ENDED}, 0)",
            ),
            next_reservation=self._next_reservation(),
        )

    def job_of_outer(self, name: str) -> int | None:
        """The id of the job that runs in this job of Slurm, or ran; None: none has."""
        query = "SELECT job_id FROM outer_jobs WHERE name = ?"
        row = self._db.execute(query, (name,)).fetchone()
        return row[0] if row else None

    def _next_reservation(self) -> int:
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'user_reservations'"
        row = self._db.execute(query).fetchone()
        return (row[0] if row else 0) + 1

    def ended_reservations(self, limit: int) -> list[UserReservation]:
        """The reservations for users that have ended, the latest ids first."""
        query = f"SELECT record FROM user_reservations WHERE {_ENDED} ORDER BY id DESC LIMIT ?"
        return self._db.records(UserReservation, query, limit)

    def identity(self) -> int:
        """A number that tells this store from others; drawn when it is first asked for."""
        (found,) = self._db.execute("PRAGMA application_id").fetchone()
        if found == 0:
            found = secrets.randbelow(2**31 - 1) + 1
            self._db.execute(f"PRAGMA application_id = {found}")
        return int(found)

    def begin_numbers(self, job_id: int, serial: int) -> None:
        """Have the next job and attempt get these numbers, and later ones the following."""
        with self._db.writing("numbers"):
            for table, first in (("jobs", job_id), ("attempts", serial)):
                self._db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                self._db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, first - 1))

    def next_serial(self) -> int:
        """SQLite keeps no sequence of attempts, but the one that `begin_numbers` put there."""
        (last,) = self._db.execute(_LAST_SERIAL).fetchone()
        return int(last) + 1

    def has_attempt(self, serial: int) -> bool:
        """True for an attempt that this store knows, live or ended."""
        query = "SELECT 1 FROM attempts WHERE serial = ?"
        return self._db.execute(query, (serial,)).fetchone() is not None

    def ended_owner(self, job_id: int) -> int | None:
        """The user of a job that has ended; None for every other id."""
        query = "SELECT uid FROM jobs WHERE id = ? AND final"
        row = self._db.execute(query, (job_id,)).fetchone()
        return row[0] if row else None

    def next_job_id(self) -> int:
        """Ids are never given twice, even where the job that had the last one is gone."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'").fetchone()
        return (row[0] if row else 0) + 1

    def taken(self, ticket: str) -> Taken | None:
        """What has been made of a submission so far; None when it is new."""
        row = self._db.execute(
            "SELECT submissions.uid, count(id), min(id) "
            "FROM submissions LEFT JOIN jobs USING (ticket) WHERE ticket = ? GROUP BY ticket",
            (ticket,),
        ).fetchone()
        return Taken(*row) if row and row[1] else None

    def array_states(self, array_id: int) -> dict[JobState, int]:
        """How many elements of an array are in each state."""
        query = "SELECT state, count(*) FROM jobs WHERE array_id = ? GROUP BY state"
        found = self._db.execute(query, (array_id,)).fetchall()
        try:
            return {JobState(state): n for state, n in found}
        except ValueError as error:
            raise self._db.damaged(f"a state of array {array_id}", error) from None

    def job(self, job_id: int) -> Job | None:
        found = self._db.records(Job, "SELECT record FROM jobs WHERE id = ?", job_id)
        return found[0] if found else None

    def run(self, job_id: int, run: int) -> Job | None:
        """A job as it was at the end of one of its runs; None before that."""
        query = "SELECT record FROM ended_runs WHERE job_id = ? AND run = ?"
        if found := self._db.records(Job, query, job_id, run):
            return found[0]
        job = self.job(job_id)
        return job if job is not None and job.state.final and job.run == run else None

    def earlier_runs(self, job_id: int, limit: int) -> list[Job]:
        """A job as it was at the ends of its latest earlier runs, the first one first."""
        query = "SELECT record FROM ended_runs WHERE job_id = ? ORDER BY run DESC LIMIT ?"
        return list(self._db.records(Job, query, job_id, limit))[::-1]

    def of_ticket(self, ticket: str) -> list[int]:
        """The job of a submission, or the elements of its array, by index: their ids."""
        return self._db.ids("SELECT id FROM jobs WHERE ticket = ? ORDER BY id", ticket)

    def of_array(self, array_id: int) -> list[int]:
        """The ids of an array's elements, by index."""
        query = "SELECT id FROM jobs WHERE array_id = ? ORDER BY array_index"
        return self._db.ids(query, array_id)

    def elements(self, array_id: int, first: int, last: int, step: int = 1) -> list[int]:
        """The ids of those elements whose index is `first`, or as many steps more, by index."""
        query = (
            "SELECT id FROM jobs WHERE array_id = ?1 AND array_index BETWEEN ?2 AND ?3 "
            "AND (array_index - ?2) % ?4 = 0 ORDER BY array_index"
        )
        return self._db.ids(query, array_id, first, last, step)

    def element(self, array_id: int, index: int) -> int | None:
        query = "SELECT id FROM jobs WHERE array_id = ? AND array_index = ?"
        return next(iter(self._db.ids(query, array_id, index)), None)

    def named(self, name: str, uid: int | None, limit: int) -> list[int]:
        """The ids of the latest `limit` jobs of just this name, oldest first; of a user's."""
        query = (
            "SELECT id FROM jobs "
            "WHERE name = ?1 AND (?2 IS NULL OR uid = ?2) ORDER BY id DESC LIMIT ?3"
        )
        return self._db.ids(query, name, uid, limit)[::-1]

    def names_before(self, job_id: int, limit: int) -> list[tuple[int, str, int]]:
        """Id, name and owner of the `limit` jobs before this id, the latest first."""
        query = "SELECT id, name, uid FROM jobs WHERE id < ? ORDER BY id DESC LIMIT ?"
        return self._db.execute(query, (job_id, limit)).fetchall()

    def owners_before(self, job_id: int, limit: int) -> list[tuple[int, int | None, int]]:
        """Id, array and owner of the `limit` jobs before this id, the latest first."""
        query = "SELECT id, array_id, uid FROM jobs WHERE id < ? ORDER BY id DESC LIMIT ?"
        return self._db.execute(query, (job_id, limit)).fetchall()

    def finished(self, limit: int, before: int | None = None) -> list[int]:
        """The ids of the latest `limit` jobs that have ended (before this id), oldest first."""
        query = (
            "SELECT id FROM jobs WHERE final AND (?1 IS NULL OR id < ?1) ORDER BY id DESC LIMIT ?2"
        )
        return self._db.ids(query, before, limit)[::-1]

    def states(self, ids: Sequence[int]) -> dict[int, JobState]:
        """The states of these jobs; a few hundred at a time."""
        query = f"SELECT id, state FROM jobs WHERE id IN ({','.join('?' * len(ids))})"
        return {i: JobState(state) for i, state in self._db.execute(query, tuple(ids))}

    def attempts(self, job_id: int) -> list[Attempt]:
        """Those that were really made, oldest first: a void launch does not count."""
        return list(self._made(job_id))[::-1]

    def last_attempt(self, job: Job) -> Attempt | None:
        """The latest real attempt of a job, or of one of its runs."""
        return next((each for each in self._made(job.id) if each.number <= job.attempts), None)

    def _made(self, job_id: int) -> Iterator[Attempt]:
        """Its attempts, the latest first; only as many are read as are looked at."""
        query = "SELECT record FROM attempts WHERE job_id = ? ORDER BY serial DESC"
        for (text,) in self._db.execute(query, (job_id,)):
            attempt = msgspec.json.decode(text, type=Attempt)
            if attempt.ended is None or attempt.outcome is not None:
                yield attempt


def _newest(waiting: Volatile, decisions: Iterable[Decision]) -> Volatile:
    """The volatile records that wait after these decisions too. `waiting` stays as it is."""
    if not waiting and not any(decision.volatile for decision in decisions):
        return {}
    found = dict(waiting)
    for decision in decisions:
        for record in decision.changed:
            found.pop(_name(record), None)
        for record in decision.volatile:
            found[_name(record)] = record
    return found


def _of(record: Record) -> object:
    """What is saved once. A job's run is kept as it was at its end (`_keep_run`), and a reservation
    may be dropped in between."""
    if type(record) is Attempt:
        return -record.serial
    return (record.id, record.run) if type(record) is Job else id(record)


def _name(record: Record) -> tuple[str, object]:
    if isinstance(record, Job):
        return "job", record.id
    if isinstance(record, Attempt):
        return "attempt", record.serial
    if isinstance(record, RuleState):
        return "rule", (record.kind, record.name)
    if isinstance(record, DeviceStatus):
        return "device", record.uuid
    return "other", record
