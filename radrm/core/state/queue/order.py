"""The interface of an order: it sorts the waiting jobs."""

from __future__ import annotations

from math import inf
from typing import Any, Protocol

from radrm.core.records import Instant, Job, UserUse

NO_TURN = (-inf, 1.0)
"""The answer of `Order.turn` that leaves keys as they are."""


class Order(Protocol):
    """Sorts the waiting jobs, after recovery queue and priority.

    A class that inherits from this one needs only `name` and `key`: the other methods then say
    that users do not matter, that a job's key never changes and that no bound is known.
    """

    @property
    def name(self) -> str: ...

    def key(self, job: Job, now: Instant) -> tuple[Any, ...]:
        """Return a job's key: the smallest is next. It holds numbers, texts, None and tuples.

        It is asked again when the job's record changes, and at `changes_s`.
        """
        ...

    def rank(self, use: UserUse) -> tuple[Any, ...]:
        """Return the rank of a user: all jobs of the smallest one are next, sorted by `key`.

        Only jobs of the same queue and priority are compared. It is asked at each step in which
        the queue is read, for users with waiting jobs.
        """
        return ()

    def turn(self, use: UserUse) -> tuple[float, float]:
        """Return `(least, factor)`: how the keys of a user's jobs compare with those of others.

        Between users of the same rank, a key counts as `(max(key[0], least), key[1] * factor)`.
        If the first of the user's jobs is below `least`, the others count as no smaller than it,
        so the order of one user's jobs stays. `factor` is above zero. It is asked when `rank` is.
        """
        return NO_TURN

    def changes_s(self, job: Job, now: Instant) -> float | None:
        """Return the boot-time second at which the key of a waiting job changes; None: never.

        The core asks for the key again then, but at most once a second for each job.
        """
        return None

    def bound(self, job: Job, now: Instant) -> str | None:
        """Return, for users, which later jobs may still pass a waiting job; None: no bound."""
        return None
