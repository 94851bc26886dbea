"""Everything that must survive, in SQLite: the one truth about every job taken in.

The core's records are kept whole, as JSON, with columns beside only where they
are searched. One step, or a batch of them, is one transaction, synced before the
daemon acts on it. Environments are kept once each: a sweep's jobs share theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import msgspec

from radrm.core.records import Attempt, DeviceStatus, Job, Reservation, RuleState
from radrm.core.scheduler import Kept
from radrm.core.state import Decision, Record
from radrm.errors import StoreError
from radrm.host.spool import Envelope
from radrm.host.tickets import is_ticket

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ticket TEXT NOT NULL UNIQUE,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    final INTEGER NOT NULL,
    record TEXT NOT NULL,
    envelope TEXT NOT NULL,
    environment TEXT NOT NULL REFERENCES blobs (digest)
);
CREATE INDEX jobs_unfinished ON jobs (id) WHERE NOT final;
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
CREATE TABLE blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL);
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Intake:
    """A submission on its way into the store, beside the job record made of it."""

    job_id: int
    uid: int
    gid: int
    envelope: Envelope


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
            script = f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            self._db.executescript(script)
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"the store {self.path} has version {version} and this radrm reads version "
                f"{SCHEMA_VERSION}; run the radrm that wrote it"
            )

    def close(self) -> None:
        self._db.close()

    # ------------------------------------------------------------- writing

    def save(self, decisions: Sequence[Decision], intakes: Iterable[Intake] = ()) -> None:
        """One transaction: all of it is on disk when this returns, or none of it."""
        taken = {intake.job_id: intake for intake in intakes}
        if not taken and not any(d.changed or d.dropped for d in decisions):
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for intake in taken.values():
                self._insert_blob(intake.envelope)
            for decision in decisions:
                for record in decision.changed:
                    self._save_record(record, taken)
                for owner, device in decision.dropped:
                    self._db.execute(
                        "DELETE FROM reservations WHERE owner = ? AND device = ?", (owner, device)
                    )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(
                f"cannot write the store {self.path}: {error}; free some space, "
                "then start the daemon again: running jobs go on"
            ) from None

    def _save_record(self, record: Record, taken: dict[int, Intake]) -> None:
        text = msgspec.json.encode(record).decode()
        if isinstance(record, Job):
            intake = taken.pop(record.id, None)
            if intake is not None:
                self._insert_job(record, intake, text)
                return
            update = "UPDATE jobs SET final = ?, record = ? WHERE id = ?"
            rows = self._db.execute(update, (record.state.final, text, record.id)).rowcount
            if rows != 1:
                raise sqlite3.IntegrityError(f"job {record.id} was never taken in")
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

    def _insert_job(self, job: Job, intake: Intake, text: str) -> None:
        document = asdict(intake.envelope)
        document.pop("environment")
        self._db.execute(
            "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                job.id,
                job.ticket,
                intake.uid,
                intake.gid,
                job.state.final,
                text,
                json.dumps(document),
                _digest(intake.envelope.environment),
            ),
        )

    def _insert_blob(self, envelope: Envelope) -> None:
        data = _packed(envelope.environment)
        self._db.execute(
            "INSERT OR IGNORE INTO blobs VALUES (?, ?)", (_digest(envelope.environment), data)
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

    def knows_ticket(self, ticket: str) -> bool:
        found = self._db.execute("SELECT 1 FROM jobs WHERE ticket = ?", (ticket,)).fetchone()
        return found is not None

    def job(self, reference: str) -> Job | None:
        """By id or ticket."""
        if is_ticket(reference.upper()):
            rows = self._all(Job, "SELECT record FROM jobs WHERE ticket = ?", reference.upper())
        elif reference.isascii() and reference.isdigit() and len(reference) < 19:
            rows = self._all(Job, "SELECT record FROM jobs WHERE id = ?", int(reference))
        else:
            return None
        return rows[0] if rows else None

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

    def intake(self, job_id: int) -> Intake:
        """What was submitted, environment included."""
        row = self._db.execute(
            "SELECT uid, gid, envelope, data FROM jobs JOIN blobs ON digest = environment "
            "WHERE id = ?",
            (job_id,),
        ).fetchone()
        if row is None:
            raise StoreError(f"the store {self.path} has no job {job_id}")
        uid, gid, text, data = row
        document = json.loads(text)
        if document["command"] is not None:
            document["command"] = tuple(document["command"])
        envelope = Envelope(**document, environment=json.loads(zlib.decompress(data)))
        return Intake(job_id=job_id, uid=uid, gid=gid, envelope=envelope)

    def _all(self, kind: type[T], query: str, *arguments: Any) -> list[T]:
        rows = self._db.execute(query, arguments)
        return [msgspec.json.decode(text, type=kind) for (text,) in rows]


def _packed(environment: dict[str, str]) -> bytes:
    return zlib.compress(json.dumps(environment, sort_keys=True).encode("ascii"), 1)


def _digest(environment: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(environment, sort_keys=True).encode("ascii")).hexdigest()
