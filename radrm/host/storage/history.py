"""Read past jobs and their attempts from a store, for `radrm replay`; never write.

A daemon may work on the same file at the same time.
"""

from __future__ import annotations

import os

from radrm.core.records import Attempt, Job
from radrm.errors import StoreError
from radrm.host.storage.database import Database, damage_told

MOST_JOBS = 200_000

_JOBS = (
    "SELECT record FROM jobs WHERE json_extract(record, '$.submitted[1]') >= ? "
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
    if not os.access(path, os.R_OK):
        raise StoreError(f"cannot read the store {path}; only its owner can, as a rule")
    db = Database(path, read_only=True)
    try:
        with damage_told(path):
            db.execute("BEGIN")  # one state of it, whatever the daemon writes meanwhile
            jobs = db.records(Job, _JOBS, since_s, MOST_JOBS)[::-1]
            made: dict[int, list[Attempt]] = {job.id: [] for job in jobs}
            for attempt in db.records(Attempt, _ATTEMPTS, min(made, default=0)):
                real = attempt.ended is None or attempt.outcome is not None
                if real and attempt.job_id in made:
                    made[attempt.job_id].append(attempt)
    finally:
        db.close()
    return [(job, tuple(made[job.id])) for job in jobs]
