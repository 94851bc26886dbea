"""What was acknowledged, what the store says became of it, and what the witness saw.

Jobs that have ended are copied from the store again and again while the soak runs, because the
daemon may remove them there later (`[retention]`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from proofs.server import stored


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A submission that `radrm submit` would have acknowledged to its user."""

    ticket: str
    kind: str
    at_s: float
    """Seconds since the epoch, before it was written."""
    uid: int = 0


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

    def note(self, uid: int, kind_of_ticket: Iterable[tuple[str, str, float]]) -> None:
        for ticket, kind, at_s in kind_of_ticket:
            self.acknowledged[ticket] = Acknowledged(ticket, kind, at_s, uid)

    def read(self, database: str) -> None:
        """Copy the jobs that have ended since the last look. Raises `sqlite3.Error`."""
        found = stored(database)
        for job in (each for each in found.jobs if each not in self.ended and found.ended(each)):
            record = found.jobs[job]
            outcomes = {int(each["number"]): str(each["outcome"]) for each in found.made(job)}
            ticket, state = found.tickets[job], record["state"]
            self.ended[job] = Ended(job, ticket, state, record.get("reason"), outcomes)


def unfinished(database: str) -> list[tuple[int, str, str]]:
    """The id, ticket and state of each job that has not ended."""
    found = stored(database)
    left = [job for job in found.jobs if not found.ended(job)]
    return [(job, found.tickets[job], found.jobs[job]["state"]) for job in left]


def witnessed(path: Path) -> Iterator[Line]:
    """The lines of one user's jobs. A line that was cut off by a kill is left out."""
    if not path.exists():
        return
    for text in path.read_text(errors="replace").split("\n")[:-1]:
        words = text.split(" ")
        with contextlib.suppress(ValueError):
            word, job, attempt, at_s, ticket = words
            yield Line(word, int(job), int(attempt), float(at_s), ticket)
