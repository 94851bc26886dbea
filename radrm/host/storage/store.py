"""Everything that must survive, in SQLite: the one truth about every job taken in.

The core's records are kept whole, as JSON, with columns beside only where they
are searched. One step, or a batch of them, is one transaction, synced before the
daemon acts on it. Environments are kept once each, and so are edits: a sweep's jobs share
theirs.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias, TypeVar

import msgspec

from radrm.core.records import Attempt, DeviceStatus, Job, Reservation, RuleState
from radrm.core.rules import PastRun
from radrm.core.scheduler import Kept
from radrm.core.state.state import Decision, Record
from radrm.core.words import JobState
from radrm.errors import StoreError
from radrm.host.storage.schema import SCHEMA_VERSION, UnknownVersion, bring_up_to_date, digest_of
from radrm.host.storage.spool import Envelope
from radrm.jobfile.options import merged

_WAL_BYTES = 64 * 2**20
"""The write-ahead log is cut back to this once its pages are in the database."""
MOST_CONTEXTS = 500
"""So many of the latest measurements are looked at: a user could make any number."""
_CONTEXT = "context "
LOG_RESERVE = 8 * 2**20
"""Bytes for SQLite's log: it is written back after 4 MiB, the rest is for a full disk."""

_LAST_SERIAL = """
SELECT max(coalesce((SELECT max(serial) FROM attempts), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'attempts'), 0))
"""
_DAMAGE = (msgspec.MsgspecError, zlib.error, ValueError, TypeError, KeyError, AttributeError)
"""What is raised for a row that somebody or a disk has changed."""

T = TypeVar("T")
Edits: TypeAlias = Iterable["tuple[int, dict[str, Any]]"]


@dataclass(frozen=True, slots=True)
class Submission:
    """What was handed in, and by whom: for one job, or for all elements of an array."""

    uid: int
    gid: int
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt of `uid` that has shown what its job needs."""

    serial: int
    uid: int
    fingerprint: str | None
    past: PastRun


@dataclass(frozen=True, slots=True)
class Taken:
    """How many jobs were made of a submission of `uid`, and the id of the first."""

    uid: int
    jobs: int
    first_id: int


class DamagedRow(StoreError):
    """A row that cannot be read: the store's other rows can."""


class Store:
    """One open database. Used by one thread only. Raises `StoreError`, with the next step."""

    def __init__(self, path: str, cover: Callable[[int, int], None] | None = None) -> None:
        """`cover` hears the highest job id and serial of a transaction before it begins."""
        self.path = path
        self._cover = cover
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=1.0)
            os.chmod(path, 0o600)
            self._prepare()
            self._keep_room()
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"cannot read the store {path}: {error}; it is left as it is. Move it aside to "
                "start with an empty one, or restore a copy"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot open the store {path}: {error.strerror}") from None

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        try:
            bring_up_to_date(self._db)
        except UnknownVersion as unknown:
            raise StoreError(
                f"the store {self.path} has version {unknown} and this radrm reads version "
                f"{SCHEMA_VERSION}; run the radrm that wrote it"
            ) from None

    def _keep_room(self) -> None:
        """Allocate space for the log of transactions now: on a full disk they still fit in.

        SQLite writes its log from the start again after each checkpoint and never makes it
        shorter while it is open; what lies behind the last transaction it does not read. Where
        a file system cannot allocate, or is full already, the log grows as it does anyway.
        """
        with contextlib.suppress(OSError):
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            log = os.open(f"{self.path}-wal", flags, 0o600)
            try:
                os.posix_fallocate(log, 0, LOG_RESERVE)
            finally:
                os.close(log)

    def close(self) -> None:
        self._db.close()

    # ------------------------------------------------------------- writing

    def save(
        self,
        decisions: Sequence[Decision],
        submissions: Iterable[Submission] = (),
        edits: Edits = (),
        runs: Sequence[Run] = (),
    ) -> None:
        """One transaction: all of it is on disk when this returns, or none of it.

        A job is stored with, or after, the submission that has its ticket. `edits` are the
        options changed since, by the job's id; `runs` is what has been learned.
        """
        handed_in, changed = list(submissions), list(edits)
        if not handed_in and not changed and not any(d.changed or d.dropped for d in decisions):
            return
        self._cover_numbers(decisions)
        with self._writing():
            for submission in handed_in:
                self._insert_submission(submission)
            for decision in decisions:
                for record in decision.changed:
                    self._save_record(record)
                for owner, device in decision.dropped:
                    self._db.execute(
                        "DELETE FROM reservations WHERE owner = ? AND device = ?", (owner, device)
                    )
            self._save_edits(changed)
            self._db.executemany(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)",
                [
                    (r.serial, r.uid, r.fingerprint, r.past.device_kind, _encoded(r.past))
                    for r in runs
                ],
            )

    def _cover_numbers(self, decisions: Sequence[Decision]) -> None:
        if self._cover is None:
            return
        changed = [record for decision in decisions for record in decision.changed]
        job_id = max((r.id for r in changed if isinstance(r, Job)), default=0)
        serial = max((r.serial for r in changed if isinstance(r, Attempt)), default=0)
        self._cover(job_id, serial)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction. Whatever is raised inside, nothing of it stays; what lies with the
        machine (a full disk, no memory) is raised as `StoreError`, and may be tried again."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            if not isinstance(error, (sqlite3.Error, OSError, MemoryError)):
                raise
            why = str(error) or type(error).__name__
            raise StoreError(
                f"cannot write the store {self.path}: {why}; free some space: "
                "jobs run on, and what was decided meanwhile is done then"
            ) from None

    def _save_record(self, record: Record) -> None:
        text = _encoded(record)
        if isinstance(record, Job):
            array = record.array
            self._db.execute(
                "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL) ON CONFLICT (id) DO UPDATE "
                "SET name = excluded.name, state = excluded.state, final = excluded.final, "
                "record = excluded.record",
                (
                    record.id,
                    record.ticket,
                    array.array_id if array else None,
                    array.index if array else None,
                    record.spec.name,
                    record.state.value,
                    record.state.final,
                    text,
                ),
            )
        elif isinstance(record, Attempt):
            self._db.execute(
                "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?)",
                (record.serial, record.job_id, record.ended is None, text),
            )
        elif isinstance(record, Reservation):
            self._db.execute(
                "INSERT OR REPLACE INTO reservations VALUES (?, ?, ?)",
                (record.owner, record.device, text),
            )
        elif isinstance(record, DeviceStatus):
            self._db.execute("INSERT OR REPLACE INTO devices VALUES (?, ?)", (record.uuid, text))
        else:
            self._db.execute(
                "INSERT OR REPLACE INTO rules VALUES (?, ?, ?)", (record.kind, record.name, text)
            )

    def _save_edits(self, changed: Sequence[tuple[int, dict[str, Any]]]) -> None:
        """Options that several jobs share are stored once; what no job has any more goes."""
        digests: dict[int, str] = {}
        """By the identity of the options: the elements of an array come with the same ones."""
        before: dict[str, None] = {}
        for job_id, options in changed:
            digest = digests.get(id(options))
            if digest is None:
                text = json.dumps(options, sort_keys=True)
                digest = digests[id(options)] = digest_of(text)
                self._db.execute("INSERT OR IGNORE INTO edits VALUES (?, ?)", (digest, text))
            if (old := self.edited(job_id)) is not None:
                before[old] = None
            self._db.execute("UPDATE jobs SET edits = ? WHERE id = ?", (digest, job_id))
        self._db.executemany(
            "DELETE FROM edits WHERE digest = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM jobs WHERE edits = ?1)",
            [(digest,) for digest in before],
        )

    def _insert_submission(self, submission: Submission) -> None:
        document = submission.envelope.as_dict()
        environment = document.pop("environment")
        digest, data = _packed(environment)
        self._db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))
        self._db.execute(
            "INSERT OR IGNORE INTO submissions VALUES (?, ?, ?, ?, ?)",
            (
                submission.envelope.ticket,
                submission.uid,
                submission.gid,
                json.dumps(document),
                digest,
            ),
        )

    # ------------------------------------------------------------- reading

    def kept(self) -> Kept:
        """What a new scheduler starts from."""
        return Kept(
            jobs=self._all(Job, "SELECT record FROM jobs WHERE NOT final ORDER BY id"),
            attempts=self._all(Attempt, "SELECT record FROM attempts WHERE live ORDER BY serial"),
            reservations=self._all(Reservation, "SELECT record FROM reservations"),
            devices=self._all(DeviceStatus, "SELECT record FROM devices"),
            rule_states=self._all(RuleState, "SELECT record FROM rules"),
            next_serial=self.next_serial(),
        )

    def identity(self) -> int:
        """A number that tells this store from others; drawn when it is first asked for."""
        (found,) = self._db.execute("PRAGMA application_id").fetchone()
        if found == 0:
            found = secrets.randbelow(2**31 - 1) + 1
            self._db.execute(f"PRAGMA application_id = {found}")
        return int(found)

    def begin_numbers(self, job_id: int, serial: int) -> None:
        """Have the next job and attempt get these numbers, and later ones the following."""
        with self._writing():
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
        query = "SELECT json_extract(record, '$.spec.uid') FROM jobs WHERE id = ? AND final"
        row = self._db.execute(query, (job_id,)).fetchone()
        return row[0] if row and isinstance(row[0], int) else None

    def next_job_id(self) -> int:
        """Ids are never given twice, even where the job that had the last one is gone."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'").fetchone()
        return (row[0] if row else 0) + 1

    def taken(self, ticket: str) -> Taken | None:
        """What has been made of a submission so far; None when it is new."""
        row = self._db.execute(
            "SELECT uid, count(id), min(id) FROM submissions LEFT JOIN jobs USING (ticket) "
            "WHERE ticket = ? GROUP BY ticket",
            (ticket,),
        ).fetchone()
        return Taken(*row) if row and row[1] else None

    def submitted(self, ticket: str) -> Submission:
        """What was handed in under this ticket, as it was. Raises `StoreError` for none."""
        query = "SELECT min(id) FROM jobs WHERE ticket = ?"
        (job_id,) = self._db.execute(query, (ticket,)).fetchone()
        return self.submission(job_id or 0, edited=False)

    def array_states(self, array_id: int) -> dict[JobState, int]:
        """How many elements of an array are in each state."""
        query = "SELECT state, count(*) FROM jobs WHERE array_id = ? GROUP BY state"
        found = self._db.execute(query, (array_id,)).fetchall()
        try:
            return {JobState(state): n for state, n in found}
        except ValueError as error:
            raise self._damaged(f"a state of array {array_id}", error) from None

    def job(self, job_id: int) -> Job | None:
        return next(iter(self._all(Job, "SELECT record FROM jobs WHERE id = ?", job_id)), None)

    def of_ticket(self, ticket: str) -> list[int]:
        """The job of a submission, or the elements of its array, by index: their ids."""
        return self._ids("SELECT id FROM jobs WHERE ticket = ? ORDER BY id", ticket)

    def of_array(self, array_id: int) -> list[int]:
        """The ids of an array's elements, by index."""
        query = "SELECT id FROM jobs WHERE array_id = ? ORDER BY array_index"
        return self._ids(query, array_id)

    def element(self, array_id: int, index: int) -> int | None:
        query = "SELECT id FROM jobs WHERE array_id = ? AND array_index = ?"
        return next(iter(self._ids(query, array_id, index)), None)

    def named(self, name: str, uid: int | None, limit: int) -> list[int]:
        """The ids of the latest `limit` jobs of just this name, oldest first; of a user's."""
        query = (
            "SELECT id FROM jobs JOIN submissions USING (ticket) "
            "WHERE name = ?1 AND (?2 IS NULL OR uid = ?2) ORDER BY id DESC LIMIT ?3"
        )
        return self._ids(query, name, uid, limit)[::-1]

    def names_before(self, job_id: int, limit: int) -> list[tuple[int, str, int]]:
        """Id, name and owner of the `limit` jobs before this id, the latest first."""
        query = (
            "SELECT id, name, uid FROM jobs JOIN submissions USING (ticket) "
            "WHERE id < ? ORDER BY id DESC LIMIT ?"
        )
        return self._db.execute(query, (job_id, limit)).fetchall()

    def finished(self, limit: int, before: int | None = None) -> list[int]:
        """The ids of the latest `limit` jobs that have ended (before this id), oldest first."""
        query = (
            "SELECT id FROM jobs WHERE final AND (?1 IS NULL OR id < ?1) ORDER BY id DESC LIMIT ?2"
        )
        return self._ids(query, before, limit)[::-1]

    def states(self, ids: Sequence[int]) -> dict[int, JobState]:
        """The states of these jobs; a few hundred at a time."""
        query = f"SELECT id, state FROM jobs WHERE id IN ({','.join('?' * len(ids))})"
        return {i: JobState(state) for i, state in self._db.execute(query, tuple(ids))}

    def attempts(self, job_id: int) -> list[Attempt]:
        """Those that were really made, oldest first: a void launch does not count."""
        return list(self._made(job_id))[::-1]

    def last_attempt(self, job_id: int) -> Attempt | None:
        """The latest real attempt of a job."""
        return next(self._made(job_id), None)

    def _made(self, job_id: int) -> Iterator[Attempt]:
        """Its attempts, the latest first; only as many are read as are looked at."""
        query = "SELECT record FROM attempts WHERE job_id = ? ORDER BY serial DESC"
        for (text,) in self._db.execute(query, (job_id,)):
            attempt = msgspec.json.decode(text, type=Attempt)
            if attempt.ended is None or attempt.outcome is not None:
                yield attempt

    def submission(self, job_id: int, edited: bool = True) -> Submission:
        """What was submitted, environment included, with what has been edited since or not."""
        row = self._db.execute(
            "SELECT uid, gid, envelope, data, options FROM jobs JOIN submissions USING (ticket) "
            "JOIN blobs ON blobs.digest = environment "
            "LEFT JOIN edits ON edits.digest = jobs.edits WHERE id = ?",
            (job_id,),
        ).fetchone()
        if row is None:
            raise StoreError(f"the store {self.path} has no job {job_id}")
        uid, gid, text, data, edits = row
        try:
            document = json.loads(text)
            if document["command"] is not None:
                document["command"] = tuple(document["command"])
            if edited and edits is not None:
                document["options"] = merged(document["options"], json.loads(edits))
            envelope = Envelope(**document, environment=json.loads(zlib.decompress(data)))
        except _DAMAGE as error:
            raise self._damaged(f"the submission of job {job_id}", error) from None
        return Submission(uid=uid, gid=gid, envelope=envelope)

    def same_runs(self, fingerprint: str, uid: int, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of a user's very same thing, the latest first."""
        query = (
            "SELECT record FROM runs WHERE fingerprint = ? AND uid = ? ORDER BY serial DESC LIMIT ?"
        )
        return self._past_runs(query, fingerprint, uid, limit)

    def recent_runs(self, device_kind: str | None, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of anybody's, on GPUs of one kind (None: of any), the latest first.
        Those that measured a context are no jobs to learn from."""
        jobs = f"coalesce(substr(fingerprint, 1, {len(_CONTEXT)}), '') != '{_CONTEXT}'"
        query = f"SELECT record FROM runs WHERE {jobs} ORDER BY serial DESC LIMIT ?"
        if device_kind is None:
            return self._past_runs(query, limit)
        query = (
            f"SELECT record FROM runs WHERE device_kind = ? AND {jobs} ORDER BY serial DESC LIMIT ?"
        )
        return self._past_runs(query, device_kind, limit)

    def _past_runs(self, query: str, *arguments: Any) -> tuple[PastRun, ...]:
        """Without those that cannot be read: a job can be estimated without them."""
        runs = []
        for (text,) in self._db.execute(query, arguments):
            with contextlib.suppress(*_DAMAGE):
                runs.append(msgspec.json.decode(text, type=PastRun))
        return tuple(runs)

    def contexts(self, device_kind: str, driver: str, uid: int) -> dict[str, float]:
        """What a CUDA context was measured to take on such GPUs under this driver, in MiB, by
        the version of CUDA: the user's own latest measurement, else the others' middle one."""
        first = context_mark(driver, "")
        rows = self._db.execute(
            "SELECT fingerprint, uid, record FROM runs WHERE fingerprint >= ? AND fingerprint < ? "
            "AND device_kind = ? ORDER BY serial DESC LIMIT ?",
            (first, first[:-1] + chr(ord(first[-1]) + 1), device_kind, MOST_CONTEXTS),
        )
        found: dict[str, dict[int, int]] = {}
        for mark, whose, text in rows:
            with contextlib.suppress(*_DAMAGE):
                peak_mib = msgspec.json.decode(text, type=PastRun).peak_mib
                found.setdefault(mark.removeprefix(first), {}).setdefault(whose, peak_mib)
        return {
            cuda: float(by_user.get(uid, median(by_user.values())))
            for cuda, by_user in found.items()
        }

    def edits(self, job_id: int) -> dict[str, Any]:
        """The options changed for one job since its submission."""
        query = "SELECT options FROM jobs JOIN edits ON digest = jobs.edits WHERE id = ?"
        row = self._db.execute(query, (job_id,)).fetchone()
        try:
            return json.loads(row[0]) if row else {}
        except ValueError as error:
            raise self._damaged(f"what was edited of job {job_id}", error) from None

    def edited(self, job_id: int) -> str | None:
        """What jobs of which the same was edited have in common; None where nothing was."""
        row = self._db.execute("SELECT edits FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return row[0] if row else None

    def _ids(self, query: str, *arguments: Any) -> list[int]:
        return [job_id for (job_id,) in self._db.execute(query, arguments)]

    def _all(self, kind: type[T], query: str, *arguments: Any) -> list[T]:
        found = []
        for (text,) in self._db.execute(query, arguments):
            try:
                found.append(msgspec.json.decode(text, type=kind))
            except _DAMAGE as error:
                what = f"the record of a {kind.__name__.lower()} ({str(text)[:40]!r}...)"
                raise self._damaged(what, error) from None
        return found

    def _damaged(self, what: str, error: Exception) -> DamagedRow:
        why = f"{type(error).__name__}: {error}"[:200]
        return DamagedRow(
            f"the store {self.path} holds {what}, which cannot be read ({why}); stop the daemon "
            "and restore a copy, or move the store aside to start with an empty one"
        )


def context_mark(driver: str, cuda: str) -> str:
    """The fingerprint of the runs that measured a CUDA context: no job's own looks like it."""
    return f"{_CONTEXT}{driver} {cuda}"


def _encoded(record: Record | PastRun) -> str:
    """As JSON. Text of users may hold what JSON cannot say; then that is spelled out."""
    try:
        return msgspec.json.encode(record).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_spelled(msgspec.to_builtins(record))).decode()


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_spelled(k): _spelled(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(v) for v in value]
    return value


def _packed(environment: dict[str, str]) -> tuple[str, bytes]:
    """The name and the packed bytes of an environment: a sweep's jobs share one."""
    text = json.dumps(environment, sort_keys=True)
    return digest_of(text), zlib.compress(text.encode("ascii"), 1)
