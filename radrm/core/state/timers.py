"""When `step` must be called again, and why.

Theory of operation. A timer is not cancelled when its reason goes away: a due timer only causes a
check, which may find nothing to do. Unneeded timers are removed at the end of a step, when all
records of that step are saved (`Timers.tidy`). Never earlier: while a step runs, a timer may be
set before the record that needs it. Timers are not stored: a restart makes them again from the
records (`core/adoption.py`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from msgspec import Struct

TIME_LIMIT = "time limit"
"""An attempt reaches its time limit, or the time of the signal before it."""
KILL = "kill"
"""The grace time of a stop ends."""
DEADLINE = "deadline"
"""A pending action of an attempt is given up."""
ESTIMATE = "estimate"
"""The estimators have not answered in time."""
BEGIN = "begin"
"""A job may start from now on (`--begin`)."""
PAUSE_OVER = "pause over"
"""A job's pause ends."""
ORDER_KEY = "order key"
"""The order's key of a waiting job changes."""
LAUNCH_AGAIN = "launch again"
"""The pause of all launches ends."""
RESERVATION_OVER = "reservation over"
"""The next end of a planner's reservation; the next start or end of one for users."""
CLOSING = "closing"
"""A waiting job would not end before a reservation for other users any more."""
DOUBT_OVER = "doubt over"
"""A doubted device is tried again."""
RULES_AGAIN = "rules"
"""The rest of a failed rule ends."""
ALL_PLANNERS = "planners"
"""Call all planners: a proposal may be possible again."""
PLANNER = "planner:"
"""The prefix of a planner's name: it asked to be called."""
THINK = "think:"
"""The prefix of a slow planner's name: it may think again, or its time is over."""

AT_ONCE = float("-inf")
"""The time of timers that are due at the next step."""

_MOST_AT_ONCE = 1000
"""At most this many timers are due in one step. The others are due in the next one, at once."""

_FEW = 256


class Timer(Struct, frozen=True, order=True):
    """Check at `boot_s`, for the reason `what`, a job's attempt (its serial; 0: none) or a rule."""

    boot_s: float
    what: str
    job_id: int = 0
    serial: int = 0


class Timers:
    """The timers, earliest first. Up to `few` of them, unneeded ones are not removed."""

    def __init__(self, few: int = _FEW) -> None:
        self._heap: list[Timer] = []
        self._few = self._most = few

    def add(self, timer: Timer) -> None:
        heapq.heappush(self._heap, timer)

    def tidy(self, is_wanted: Callable[[Timer], bool], now_s: float) -> None:
        """Remove the timers that are not needed any more, if there are many; between steps only.

        The timers of ended attempts would stay until they are due, perhaps for days. One that is
        due and has not had its turn stays.
        """
        if len(self._heap) > self._most:
            kept = {each for each in self._heap if each.boot_s <= now_s or is_wanted(each)}
            self._heap = sorted(kept)
            self._most = 2 * len(kept) + self._few

    def take_due(self, now_s: float) -> list[Timer]:
        """Remove and return the first due timers, earliest first."""
        found: list[Timer] = []
        while self._heap and self._heap[0].boot_s <= now_s and len(found) < _MOST_AT_ONCE:
            found.append(heapq.heappop(self._heap))
        return found

    def clear(self) -> None:
        """Remove all timers."""
        self._heap.clear()

    @property
    def next_s(self) -> float | None:
        """The boot time of the earliest timer; None without timers."""
        return self._heap[0].boot_s if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Timer]:
        return iter(self._heap)
