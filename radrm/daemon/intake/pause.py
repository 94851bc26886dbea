"""Errors of the machine, and how long something waits after one; each time longer."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from radrm.errors import RadrmError, StoreError, plain

SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
LONGEST_REASON = 300
MACHINE = (sqlite3.Error, StoreError, OSError, MemoryError)
"""Errors of the machine, not of an envelope's content: the next look may succeed."""


@dataclass(slots=True)
class Pause:
    """The length of a pause after an error, and its end by the look's clock."""

    length_s: float = 0.0
    until_s: float = 0.0

    def grow(self, now_s: float) -> None:
        """Begin a pause, twice as long as the last one."""
        self.length_s = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, 2 * self.length_s))
        self.until_s = now_s + self.length_s


def in_short(error: Exception) -> str:
    """Return an error as a short plain line, because it may contain users' text."""
    text = str(error) if isinstance(error, (RadrmError, OSError)) else repr(error)
    return plain(text[:LONGEST_REASON])
