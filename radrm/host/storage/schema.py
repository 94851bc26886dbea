"""The store's tables.

They are made in one transaction with their version, so a kill leaves all of them or none. A store
of another version is refused, never guessed at.
"""

from __future__ import annotations

import hashlib
import sqlite3

SCHEMA_VERSION = 1

BYTES = "(length(envelope) + coalesce(length(job_file), 0))"

_TABLES = """
CREATE TABLE blobs (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, data BLOB NOT NULL);
CREATE TABLE submissions (
    ticket TEXT PRIMARY KEY,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    envelope TEXT NOT NULL,
    environment INTEGER NOT NULL REFERENCES blobs (id),
    job_file TEXT
);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ticket TEXT NOT NULL REFERENCES submissions (ticket),
    array_id INTEGER,
    array_index INTEGER,
    name TEXT NOT NULL,
    uid INTEGER NOT NULL,
    state TEXT NOT NULL,
    final INTEGER NOT NULL,
    ended_s REAL,
    record TEXT NOT NULL,
    edits TEXT
);
CREATE INDEX jobs_unfinished ON jobs (id) WHERE NOT final;
CREATE UNIQUE INDEX jobs_of_ticket ON jobs (ticket, coalesce(array_index, -1));
CREATE INDEX jobs_of_array ON jobs (array_id, array_index) WHERE array_id IS NOT NULL;
CREATE INDEX jobs_named ON jobs (name);
CREATE INDEX array_states ON jobs (array_id, state) WHERE array_id IS NOT NULL;
CREATE TABLE attempts (
    serial INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    live INTEGER NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX attempts_of_job ON attempts (job_id);
-- A job that was requeued after its end, as it was at each of its ends.
CREATE TABLE ended_runs (
    job_id INTEGER NOT NULL, run INTEGER NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (job_id, run)
) WITHOUT ROWID;
CREATE INDEX attempts_live ON attempts (serial) WHERE live;
CREATE TABLE reservations (
    owner TEXT NOT NULL, kind TEXT NOT NULL, device TEXT NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (owner, kind, device)
);
CREATE TABLE devices (uuid TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE rules (
    kind TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (kind, name)
);
-- Past runs: one row for each attempt whose peak tells what its job needs.
CREATE TABLE runs (
    serial INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    fingerprint TEXT,
    device_kind TEXT NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX runs_of_fingerprint ON runs (fingerprint, uid) WHERE fingerprint IS NOT NULL;
CREATE INDEX runs_of_kind ON runs (device_kind, serial);
-- The energy book (`host/storage/energy.py`).
CREATE TABLE energy (
    hour INTEGER NOT NULL, device TEXT NOT NULL, job_id INTEGER NOT NULL,
    user TEXT, grp TEXT, joules REAL NOT NULL, equally_j REAL NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (hour, device, job_id)
) WITHOUT ROWID;
-- What was edited, once for all jobs of which the same was; a job's `edits` is its digest.
CREATE TABLE edits (digest TEXT PRIMARY KEY, options TEXT NOT NULL);
CREATE INDEX jobs_edited ON jobs (edits) WHERE edits IS NOT NULL;
-- What retention needs (`retention/rows.py`): who has the oldest ends, which ids have gone, which
-- attempts are kept for their runs, how many bytes of submissions a user has.
CREATE INDEX jobs_ended ON jobs (uid, ended_s) WHERE final;
CREATE INDEX ends ON jobs (ended_s) WHERE final;
CREATE INDEX array_ends ON jobs (array_id, ended_s) WHERE final AND array_id IS NOT NULL;
CREATE INDEX submissions_environment ON submissions (environment);
CREATE TABLE removed (first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE learned (serial INTEGER PRIMARY KEY, name TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX learned_named ON learned (name, serial);
CREATE TABLE marks (name TEXT PRIMARY KEY, record TEXT NOT NULL);
-- Notices (`host/storage/notices.py`): about a job, or an array by its id. And what users and
-- the site have reserved for times to come.
CREATE TABLE notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    error TEXT,
    document TEXT NOT NULL
);
CREATE INDEX notices_of_job ON notices (job_id, kind);
CREATE INDEX notices_waiting ON notices (id, uid) WHERE state = 'waiting';
CREATE TABLE user_reservations (id INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL);
-- The jobs of Slurm in which jobs run: none is taken in a second time while its job is on record.
CREATE TABLE outer_jobs (name TEXT PRIMARY KEY, job_id INTEGER NOT NULL);
CREATE INDEX outer_jobs_of_job ON outer_jobs (job_id);
"""


class UnknownVersion(Exception):
    """The tables are of a version that this radrm does not know."""


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables of a new store: all of them, or none.

    Raises `UnknownVersion`, and what SQLite raises.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == 0:
        db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    elif version != SCHEMA_VERSION:
        raise UnknownVersion(version)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
