"""Everything that must survive, in SQLite: the one truth about every job taken in.

The core's records are kept whole, as JSON, with columns beside only where they
are searched. One step, or a batch of them, is one transaction, synced before the
daemon acts on it. Environments are kept once each: a sweep's jobs share theirs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, TypeAlias, TypeVar

import msgspec

from radrm.core.records import Attempt, DeviceStatus, Job, Reservation, RuleState
from radrm.core.rules import PastRun
from radrm.core.scheduler import Kept
from radrm.core.state import Decision, Record
from radrm.core.words import JobState
from radrm.errors import StoreError
from radrm.host.spool import Envelope
from radrm.options import merged

SCHEMA_VERSION = 4
MOST_CONTEXTS = 500
"""So many of the latest measurements are looked at: a user could make any number."""
_CONTEXT = "context "

_SUBMISSIONS = """
CREATE TABLE submissions (
    ticket TEXT PRIMARY KEY,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    envelope TEXT NOT NULL,
    environment TEXT NOT NULL REFERENCES blobs (digest)
);
"""
_JOBS = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ticket TEXT NOT NULL REFERENCES submissions (ticket),
    array_id INTEGER,
    array_index INTEGER,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    final INTEGER NOT NULL,
    record TEXT NOT NULL,
    edits TEXT
);
"""
_SCHEMA = f"""
CREATE TABLE blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL);
{_SUBMISSIONS}
{_JOBS}
CREATE TABLE attempts (
    serial INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    live INTEGER NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX attempts_of_job ON attempts (job_id);
CREATE INDEX attempts_live ON attempts (serial) WHERE live;
CREATE TABLE reservations (
    owner TEXT NOT NULL, device TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (owner, device)
);
CREATE TABLE devices (uuid TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE rules (
    kind TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (kind, name)
);
"""
# What was learned: one row for each attempt whose peak tells what its job needs.
_RUNS = """
CREATE TABLE runs (
    serial INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    fingerprint TEXT,
    device_kind TEXT NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX runs_of_fingerprint ON runs (fingerprint, uid) WHERE fingerprint IS NOT NULL;
CREATE INDEX runs_of_kind ON runs (device_kind, serial);
"""
_INDEXES = """
CREATE INDEX jobs_unfinished ON jobs (id) WHERE NOT final;
CREATE UNIQUE INDEX jobs_of_ticket ON jobs (ticket, coalesce(array_index, -1));
CREATE INDEX jobs_of_array ON jobs (array_id, array_index) WHERE array_id IS NOT NULL;
CREATE INDEX jobs_named ON jobs (name);
CREATE INDEX array_states ON jobs (array_id, state) WHERE array_id IS NOT NULL;
"""
_MOVE_JOBS = """
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'old_jobs')
    WHERE name = 'jobs';
DROP TABLE old_jobs;
"""
# Version 1 knew no arrays: its envelope stood in the job's own row. Version 2 had no states,
# version 3 learned nothing.
_MIGRATIONS = {
    1: f"""
ALTER TABLE jobs RENAME TO old_jobs;
{_SUBMISSIONS}
{_JOBS}
INSERT INTO submissions SELECT ticket, uid, gid, envelope, environment FROM old_jobs;
INSERT INTO jobs SELECT id, ticket, NULL, NULL, json_extract(record, '$.spec.name'),
    json_extract(record, '$.state'), final, record, NULL FROM old_jobs;
{_MOVE_JOBS}
{_INDEXES}
{_RUNS}
""",
    2: f"""
ALTER TABLE jobs RENAME TO old_jobs;
{_JOBS}
INSERT INTO jobs SELECT id, ticket, array_id, array_index, name, json_extract(record, '$.state'),
    final, record, edits FROM old_jobs;
{_MOVE_JOBS}
{_INDEXES}
{_RUNS}
""",
    3: _RUNS,
}

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


class Store:
    """One open database. Used by one thread only. Raises `StoreError`, with the next step."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=1.0)
            os.chmod(path, 0o600)
            self._prepare()
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
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._run(_SCHEMA + _INDEXES + _RUNS)
        elif version in _MIGRATIONS:
            self._db.execute("PRAGMA foreign_keys = OFF")
            self._db.execute("PRAGMA legacy_alter_table = ON")
            self._run(_MIGRATIONS[version])
            self._db.execute("PRAGMA legacy_alter_table = OFF")
            self._db.execute("PRAGMA foreign_keys = ON")
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"the store {self.path} has version {version} and this radrm reads version "
                f"{SCHEMA_VERSION}; run the radrm that wrote it"
            )

    def _run(self, script: str) -> None:
        """All of a change to the tables, or nothing of it."""
        self._db.executescript(f"BEGIN; {script} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")

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
            self._db.executemany(
                "UPDATE jobs SET edits = ? WHERE id = ?",
                [(json.dumps(options), job_id) for job_id, options in changed],
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)",
                [
                    (r.serial, r.uid, r.fingerprint, r.past.device_kind, _encoded(r.past))
                    for r in runs
                ],
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(
                f"cannot write the store {self.path}: {error}; free some space, "
                "then start the daemon again: running jobs go on"
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

    def _insert_submission(self, submission: Submission) -> None:
        document = asdict(submission.envelope)
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
        (last,) = self._db.execute("SELECT coalesce(max(serial), 0) FROM attempts").fetchone()
        return Kept(
            jobs=self._all(Job, "SELECT record FROM jobs WHERE NOT final ORDER BY id"),
            attempts=self._all(Attempt, "SELECT record FROM attempts WHERE live ORDER BY serial"),
            reservations=self._all(Reservation, "SELECT record FROM reservations"),
            devices=self._all(DeviceStatus, "SELECT record FROM devices"),
            rule_states=self._all(RuleState, "SELECT record FROM rules"),
            next_serial=last + 1,
        )

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
        return {JobState(state): n for state, n in self._db.execute(query, (array_id,))}

    def job(self, job_id: int) -> Job | None:
        return next(iter(self._all(Job, "SELECT record FROM jobs WHERE id = ?", job_id)), None)

    def of_ticket(self, ticket: str) -> list[Job]:
        """The job of a submission, or the elements of its array, by index."""
        query = "SELECT record FROM jobs WHERE ticket = ? ORDER BY id"
        return self._all(Job, query, ticket)

    def of_array(self, array_id: int) -> list[Job]:
        query = "SELECT record FROM jobs WHERE array_id = ? ORDER BY array_index"
        return self._all(Job, query, array_id)

    def element(self, array_id: int, index: int) -> Job | None:
        query = "SELECT record FROM jobs WHERE array_id = ? AND array_index = ?"
        return next(iter(self._all(Job, query, array_id, index)), None)

    def named(self, pattern: str, limit: int) -> list[Job]:
        """The latest `limit` jobs whose name matches a glob, oldest first."""
        pattern = pattern.replace("[!", "[^")
        query = "SELECT record FROM jobs WHERE name GLOB ? ORDER BY id DESC LIMIT ?"
        return self._all(Job, query, pattern, limit)[::-1]

    def finished(self, limit: int) -> list[Job]:
        """The latest `limit` jobs that have ended, oldest first."""
        query = "SELECT record FROM jobs WHERE final ORDER BY id DESC LIMIT ?"
        return self._all(Job, query, limit)[::-1]

    def attempts(self, job_id: int) -> list[Attempt]:
        """Those that were really made, oldest first: a void launch does not count."""
        query = "SELECT record FROM attempts WHERE job_id = ? ORDER BY serial"
        found = self._all(Attempt, query, job_id)
        return [a for a in found if a.ended is None or a.outcome is not None]

    def last_attempts(self, job_ids: Iterable[int]) -> dict[int, Attempt]:
        """The latest real attempt of each of these jobs."""
        return {i: made[-1] for i in job_ids if (made := self.attempts(i))}

    def submission(self, job_id: int, edited: bool = True) -> Submission:
        """What was submitted, environment included, with what has been edited since or not."""
        row = self._db.execute(
            "SELECT uid, gid, envelope, data, edits FROM jobs JOIN submissions USING (ticket) "
            "JOIN blobs ON digest = environment WHERE id = ?",
            (job_id,),
        ).fetchone()
        if row is None:
            raise StoreError(f"the store {self.path} has no job {job_id}")
        uid, gid, text, data, edits = row
        document = json.loads(text)
        if document["command"] is not None:
            document["command"] = tuple(document["command"])
        if edited and edits is not None:
            document["options"] = merged(document["options"], json.loads(edits))
        envelope = Envelope(**document, environment=json.loads(zlib.decompress(data)))
        return Submission(uid=uid, gid=gid, envelope=envelope)

    def same_runs(self, fingerprint: str, uid: int, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of a user's very same thing, the latest first."""
        query = (
            "SELECT record FROM runs WHERE fingerprint = ? AND uid = ? ORDER BY serial DESC LIMIT ?"
        )
        return tuple(self._all(PastRun, query, fingerprint, uid, limit))

    def recent_runs(self, device_kind: str | None, limit: int) -> tuple[PastRun, ...]:
        """The latest runs of anybody's, on GPUs of one kind (None: of any), the latest first.
        Those that measured a context are no jobs to learn from."""
        jobs = f"coalesce(substr(fingerprint, 1, {len(_CONTEXT)}), '') != '{_CONTEXT}'"
        query = f"SELECT record FROM runs WHERE {jobs} ORDER BY serial DESC LIMIT ?"
        if device_kind is None:
            return tuple(self._all(PastRun, query, limit))
        query = (
            f"SELECT record FROM runs WHERE device_kind = ? AND {jobs} ORDER BY serial DESC LIMIT ?"
        )
        return tuple(self._all(PastRun, query, device_kind, limit))

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
            peak_mib = msgspec.json.decode(text, type=PastRun).peak_mib
            found.setdefault(mark.removeprefix(first), {}).setdefault(whose, peak_mib)
        return {
            cuda: float(by_user.get(uid, median(by_user.values())))
            for cuda, by_user in found.items()
        }

    def edits(self, job_id: int) -> dict[str, Any]:
        """The options changed for one job since its submission."""
        row = self._db.execute("SELECT edits FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return json.loads(row[0]) if row and row[0] else {}

    def _all(self, kind: type[T], query: str, *arguments: Any) -> list[T]:
        rows = self._db.execute(query, arguments)
        return [msgspec.json.decode(text, type=kind) for (text,) in rows]


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
    text = json.dumps(environment, sort_keys=True).encode("ascii")
    return hashlib.sha256(text).hexdigest(), zlib.compress(text, 1)
