"""What was acknowledged, what the store says became of it, and what the witness saw.

Jobs that have ended are copied from the store again and again while the soak runs, because the
daemon may remove them there later (`[retention]`).
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A submission that `radrm submit` would have acknowledged to its user."""

    ticket: str
    kind: str
    at_s: float
    """Seconds since the epoch, before it was written."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended, with the outcomes of its attempts by number (void ones left out)."""

    id: int
    ticket: str
    state: str
    reason: str | None
    outcomes: dict[int, str]


@dataclass(frozen=True, slots=True)
class Line:
    """What a job wrote down: `begun`, `doubled` (an earlier attempt still lived) or `ended`."""

    word: str
    job: int
    attempt: int
    at_s: float
    ticket: str


@dataclass(slots=True)
class Ledger:
    """The books of one soak."""

    acknowledged: dict[str, Acknowledged] = field(default_factory=dict)
    ended: dict[int, Ended] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    """Jobs that somebody was about to cancel, or one element of an array for all of them: they may
    have ended otherwise."""

    def note(self, kind_of_ticket: Iterable[tuple[str, str, float]]) -> None:
        for ticket, kind, at_s in kind_of_ticket:
            self.acknowledged[ticket] = Acknowledged(ticket, kind, at_s)

    def read(self, database: Path) -> None:
        """Copy the jobs that have ended since the last look. Raises `sqlite3.Error`."""
        with contextlib.closing(_open(database)) as db:
            ids = [i for (i,) in db.execute("SELECT id FROM jobs WHERE final")]
            for job in (i for i in ids if i not in self.ended):
                self.ended[job] = _ended(db, job)


def unfinished(database: Path) -> list[tuple[int, str, str]]:
    """The id, ticket and state of each job that has not ended."""
    with contextlib.closing(_open(database)) as db:
        found = db.execute("SELECT id, ticket, state FROM jobs WHERE NOT final").fetchall()
    return [(int(job), str(ticket), str(state)) for job, ticket, state in found]


def reservations(database: Path) -> list[str]:
    """The records of all reservations."""
    with contextlib.closing(_open(database)) as db:
        return [str(text) for (text,) in db.execute("SELECT record FROM reservations")]


def witnessed(path: Path) -> Iterator[Line]:
    """The lines of one user's jobs. A line that was cut off by a kill is left out."""
    if not path.exists():
        return
    for text in path.read_text(errors="replace").split("\n")[:-1]:
        words = text.split(" ")
        with contextlib.suppress(ValueError):
            word, job, attempt, at_s, ticket = words
            yield Line(word, int(job), int(attempt), float(at_s), ticket)


def _open(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10.0)


def _ended(db: sqlite3.Connection, job: int) -> Ended:
    ticket, state, record = db.execute(
        "SELECT ticket, state, record FROM jobs WHERE id = ?", (job,)
    ).fetchone()
    outcomes = {}
    for (text,) in db.execute("SELECT record FROM attempts WHERE job_id = ?", (job,)):
        attempt = json.loads(text)
        if attempt.get("outcome") is not None:
            outcomes[int(attempt["number"])] = str(attempt["outcome"])
    return Ended(job, ticket, state, json.loads(record).get("reason"), outcomes)
