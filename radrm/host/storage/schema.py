"""The store's tables, and how those of an earlier release are brought up to date.

The tables move in one transaction with their version, so a kill leaves the old store or the new
one. A later release than this one is refused, never guessed at.
"""

from __future__ import annotations

import hashlib
import sqlite3

SCHEMA_VERSION = 12

_SUBMISSIONS = """
CREATE TABLE submissions (
    ticket TEXT PRIMARY KEY,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    envelope TEXT NOT NULL,
    environment TEXT NOT NULL REFERENCES blobs (digest),
    job_file TEXT
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
_RESERVATIONS = """
CREATE TABLE reservations (
    owner TEXT NOT NULL, kind TEXT NOT NULL, device TEXT NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (owner, kind, device)
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
{_RESERVATIONS}
CREATE TABLE devices (uuid TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE rules (
    kind TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (kind, name)
);
"""
# Past runs: one row for each attempt whose peak tells what its job needs.
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
# The energy book (`host/storage/energy.py`).
_ENERGY = """
CREATE TABLE energy (
    hour INTEGER NOT NULL, device TEXT NOT NULL, job_id INTEGER NOT NULL,
    user TEXT, grp TEXT, joules REAL NOT NULL, equally_j REAL NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (hour, device, job_id)
) WITHOUT ROWID;
CREATE INDEX energy_of_job ON energy (job_id, hour) WHERE job_id > 0;
"""
_INDEXES = """
CREATE INDEX jobs_unfinished ON jobs (id) WHERE NOT final;
CREATE UNIQUE INDEX jobs_of_ticket ON jobs (ticket, coalesce(array_index, -1));
CREATE INDEX jobs_of_array ON jobs (array_id, array_index) WHERE array_id IS NOT NULL;
CREATE INDEX jobs_named ON jobs (name);
CREATE INDEX array_states ON jobs (array_id, state) WHERE array_id IS NOT NULL;
"""
# What was edited, once for all jobs of which the same was; a job's `edits` is its digest.
_EDITS = """
CREATE TABLE edits (digest TEXT PRIMARY KEY, options TEXT NOT NULL);
CREATE INDEX jobs_edited ON jobs (edits) WHERE edits IS NOT NULL;
"""
_MOVE_EDITS = f"""
{_EDITS}
INSERT OR IGNORE INTO edits SELECT digest(edits), edits FROM jobs WHERE edits IS NOT NULL;
UPDATE jobs SET edits = digest(edits) WHERE edits IS NOT NULL;
"""
_ADD_JOB_FILES = "ALTER TABLE submissions ADD COLUMN job_file TEXT;\n"
_ADD_KINDS = f"""
ALTER TABLE reservations RENAME TO old_reservations;
{_RESERVATIONS}
INSERT INTO reservations SELECT owner, json_extract(record, '$.kind'), device, record
    FROM old_reservations;
DROP TABLE old_reservations;
"""
# A record that cannot be read has no end and no user: it is never removed.
ENDED = "CASE WHEN json_valid(record) THEN json_extract(record, '$.ended.wall_s') END"
OWNER = "CASE WHEN json_valid(record) THEN json_extract(record, '$.spec.uid') END"
# What retention needs (`retention/rows.py`): who has the oldest ends, which ids have gone, which
# attempts are kept for their runs, how many bytes of submissions a user has.
_RETENTION = f"""
CREATE INDEX IF NOT EXISTS jobs_ended ON jobs ({OWNER}, {ENDED}) WHERE final;
CREATE INDEX IF NOT EXISTS array_ends ON jobs (array_id, {ENDED})
    WHERE final AND array_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS submissions_environment ON submissions (environment);
CREATE TABLE IF NOT EXISTS removed (first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS learned (
    serial INTEGER PRIMARY KEY, name TEXT NOT NULL, record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS learned_named ON learned (name, serial);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, record TEXT NOT NULL);
"""
# Notices (`host/storage/notices/book.py`): about a job, or an array by its id. And what users and
# the site have reserved for times to come.
_NOTICES = """
CREATE TABLE IF NOT EXISTS notices (
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
CREATE INDEX IF NOT EXISTS notices_of_job ON notices (job_id, kind);
CREATE INDEX IF NOT EXISTS notices_waiting ON notices (id, uid) WHERE state = 'waiting';
CREATE TABLE IF NOT EXISTS user_reservations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL
);
"""
# The jobs of Slurm in which jobs run: none is taken in a second time while its job is on record.
_OUTER = """
CREATE TABLE IF NOT EXISTS outer_jobs (name TEXT PRIMARY KEY, job_id INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS outer_jobs_of_job ON outer_jobs (job_id);
"""
_MOVE_JOBS = """
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'old_jobs')
    WHERE name = 'jobs';
DROP TABLE old_jobs;
"""
# Version 1 knew no arrays: its envelope stood in the job's own row. Version 2 had no states,
# version 3 kept no runs, version 4 kept what was edited with every job, version 5 kept no parsed
# job files: those are read from their envelopes. Version 6 had one reservation of an owner
# on a device, version 7 had no energy book, version 8 (release 0.1.0) removed nothing, version 9
# had no notices and no reservations of users, version 10 no jobs of Slurm.
_MIGRATIONS = {
    1: f"""
ALTER TABLE jobs RENAME TO old_jobs;
{_SUBMISSIONS}
{_JOBS}
INSERT INTO submissions SELECT ticket, uid, gid, envelope, environment, NULL FROM old_jobs;
INSERT INTO jobs SELECT id, ticket, NULL, NULL, json_extract(record, '$.spec.name'),
    json_extract(record, '$.state'), final, record, NULL FROM old_jobs;
{_MOVE_JOBS}
{_INDEXES}
{_RUNS}
{_EDITS}
{_ADD_KINDS}
{_ENERGY}
""",
    2: f"""
ALTER TABLE jobs RENAME TO old_jobs;
{_JOBS}
INSERT INTO jobs SELECT id, ticket, array_id, array_index, name, json_extract(record, '$.state'),
    final, record, edits FROM old_jobs;
{_MOVE_JOBS}
{_INDEXES}
{_RUNS}
{_MOVE_EDITS}
{_ADD_JOB_FILES}
{_ADD_KINDS}
{_ENERGY}
""",
    3: _RUNS + _MOVE_EDITS + _ADD_JOB_FILES + _ADD_KINDS + _ENERGY,
    4: _MOVE_EDITS + _ADD_JOB_FILES + _ADD_KINDS + _ENERGY,
    5: _ADD_JOB_FILES + _ADD_KINDS + _ENERGY,
    6: _ADD_KINDS + _ENERGY,
    7: _ENERGY,
    8: "",
}
_BEFORE_NOTICES, _BEFORE_OUTER, _BEFORE_OUTER_INDEX = 9, 10, 11


class UnknownVersion(Exception):
    """The tables are of a version that this release does not know."""


def bring_up_to_date(db: sqlite3.Connection) -> None:
    """Make the tables, or move those of an earlier release: all of it, or nothing.

    Raises `UnknownVersion`, and what SQLite raises.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == 0:
        _run(db, _SCHEMA + _INDEXES + _RUNS + _EDITS + _ENERGY + _RETENTION + _NOTICES + _OUTER)
    elif version in (_BEFORE_NOTICES, _BEFORE_OUTER, _BEFORE_OUTER_INDEX):
        _run(db, _NOTICES + _OUTER)
    elif version in _MIGRATIONS:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("PRAGMA legacy_alter_table = ON")
        db.create_function("digest", 1, digest_of, deterministic=True)
        _run(db, _MIGRATIONS[version] + _RETENTION + _NOTICES + _OUTER)
        db.execute("PRAGMA legacy_alter_table = OFF")
        db.execute("PRAGMA foreign_keys = ON")
    elif version != SCHEMA_VERSION:
        raise UnknownVersion(version)


def _run(db: sqlite3.Connection, script: str) -> None:
    db.executescript(f"BEGIN; {script} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
