"""How many requests a second each user may make: a token bucket per user.

Theory of operation
-------------------
A user's bucket holds the requests of `BURST_S` seconds, at least ten. A request takes one. Without
one in the bucket it waits for its own, in the thread of its connection: scripts are slowed down,
and need not try again. What would wait for more than `LONGEST_WAIT_S` is refused and takes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import ceil

BURST_S = 10.0
LONGEST_WAIT_S = 10.0
_LEAST_BURST = 10.0
_MANY = 1000
"""Users of whom buckets are kept; full ones are dropped then."""


class Rates:
    """The buckets. `per_s`: a user's requests a second, 0 for any number."""

    def __init__(
        self, per_s: Callable[[int], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[int, tuple[float, float]] = {}
        """By user: the requests left (below zero while some wait), and when that was."""

    def take(self, uid: int) -> float:
        """Return the seconds that a user's next request has to wait.

        With more than `LONGEST_WAIT_S` it is to be refused, and does not count.
        """
        per_s = self._per_s(uid)
        if per_s <= 0:
            return 0.0
        with self._lock:
            left = self._left(uid, per_s) - 1.0
            wait_s = max(0.0, -left / per_s)
            if wait_s <= LONGEST_WAIT_S:
                self._buckets[uid] = left, self._clock()
        return wait_s

    def refusal(self, uid: int, wait_s: float) -> str:
        """Return what a user is told whose request is refused."""
        return (
            f"you send more than {self._per_s(uid):g} requests a second; "
            f"nothing was done, try again in {ceil(wait_s)} s"
        )

    def _left(self, uid: int, per_s: float) -> float:
        most = max(_LEAST_BURST, BURST_S * per_s)
        if len(self._buckets) > _MANY and uid not in self._buckets:
            now = self._clock()
            for other, (left, at) in list(self._buckets.items()):
                if left + (now - at) * self._per_s(other) >= most:
                    del self._buckets[other]
        left, at = self._buckets.get(uid, (most, self._clock()))
        return min(most, left + (self._clock() - at) * per_s)
