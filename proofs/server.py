"""A daemon from outside: what its store says, and its simulated driver."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radrm.core.words import JobState
from radrm.host.simulated.client import DriverClient
from radrm.host.simulated.start_driver import SOCKET_NAME
from radrm.host.storage.paths import Paths


@dataclass(frozen=True, slots=True)
class Stored:
    """The records of a store: jobs and their tickets by id, attempts by their job's id."""

    jobs: dict[int, dict[str, Any]]
    tickets: dict[int, str]
    attempts: dict[int, list[dict[str, Any]]]

    def ended(self, job: int) -> bool:
        return JobState(self.jobs[job]["state"]).final

    def made(self, job: int) -> list[dict[str, Any]]:
        """The attempts of a job that have an outcome: void ones have none."""
        return [each for each in self.attempts.get(job, ()) if each.get("outcome") is not None]


def stored(database: str | Path) -> Stored:
    """Read a store. Raises `sqlite3.Error`."""
    found = Stored({}, {}, {})
    with contextlib.closing(_open(database)) as db:
        for job_id, ticket, text in db.execute("SELECT id, ticket, record FROM jobs"):
            found.jobs[job_id], found.tickets[job_id] = json.loads(text), ticket
        for (text,) in db.execute("SELECT record FROM attempts ORDER BY serial"):
            record = json.loads(text)
            found.attempts.setdefault(record["job_id"], []).append(record)
    return found


def reservations(database: str | Path) -> list[str]:
    """The records of all reservations."""
    with contextlib.closing(_open(database)) as db:
        return [str(text) for (text,) in db.execute("SELECT record FROM reservations")]


def _open(database: str | Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10.0)


@contextlib.contextmanager
def driver(paths: Paths) -> Iterator[DriverClient]:
    """The simulated driver of a daemon. Raises `RadrmError`."""
    client = DriverClient(Path(paths.run, SOCKET_NAME))
    try:
        yield client
    finally:
        client.close()
