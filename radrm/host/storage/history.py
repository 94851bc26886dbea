"""Read past jobs and their attempts from a store, for `radrm replay`; never write.

A daemon may work on the same file at the same time.
"""

from __future__ import annotations

import os
import sqlite3
from urllib.parse import quote

import msgspec

from radrm.core.records import Attempt, Job
from radrm.errors import StoreError
from radrm.host.storage.schema import SCHEMA_VERSION

MOST_JOBS = 200_000

_JOBS = (
    "SELECT id, record FROM jobs WHERE json_extract(record, '$.submitted[1]') >= ? "
    "ORDER BY id DESC LIMIT ?"
)
_ATTEMPTS = "SELECT record FROM attempts WHERE job_id >= ? ORDER BY serial"


def read_past(path: str, since_s: float) -> list[tuple[Job, tuple[Attempt, ...]]]:
    """The latest jobs submitted since then (epoch seconds), oldest first, each with the
    attempts that were really made. Raises `StoreError`, with the next step."""
    if not os.path.exists(path):
        raise StoreError(
            f"there is no store {path}: no daemon has kept anything here, or it is another "
            "user's; name one with --store"
        )
    try:
        db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=5.0)
    except sqlite3.Error as error:
        raise StoreError(f"cannot open the store {path}: {error}") from None
    try:
        db.execute("BEGIN")  # one state of it, whatever the daemon writes meanwhile
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"the store {path} has version {version} and this radrm reads version "
                f"{SCHEMA_VERSION}; use the radrm that wrote it"
            )
        rows = db.execute(_JOBS, (since_s, MOST_JOBS)).fetchall()
        found = {job_id: msgspec.json.decode(text, type=Job) for job_id, text in rows[::-1]}
        made: dict[int, list[Attempt]] = {job_id: [] for job_id in found}
        for (text,) in db.execute(_ATTEMPTS, (min(found, default=0),)):
            attempt = msgspec.json.decode(text, type=Attempt)
            real = attempt.ended is None or attempt.outcome is not None
            if real and attempt.job_id in made:
                made[attempt.job_id].append(attempt)
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot read the store {path}: {error}; only its owner can, as a rule"
        ) from None
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StoreError(f"the store {path} holds a record that cannot be read: {error}") from None
    finally:
        db.close()
    return [(job, tuple(made[job_id])) for job_id, job in found.items()]
