"""The interface of an order: it sorts the waiting jobs."""

from __future__ import annotations

from typing import Any, Protocol

from radrm.core.records import Instant, Job


class Order(Protocol):
    """Sorts the waiting jobs, after recovery queue and priority.

    A class that inherits from this one needs only `name` and `key`: the other methods then say
    that a job's key never changes and that no bound is known.
    """

    @property
    def name(self) -> str: ...

    def key(self, job: Job, now: Instant) -> tuple[Any, ...]:
        """Return a job's key: the smallest is next. It holds numbers, texts, None and tuples.

        It is asked again when the job's record changes, and at `changes_s`.
        """
        ...

    def changes_s(self, job: Job, now: Instant) -> float | None:
        """Return the boot-time second at which the key of a waiting job changes; None: never.

        The core asks for the key again then, but at most once a second for each job.
        """
        return None

    def bound(self, job: Job, now: Instant) -> str | None:
        """Return, for users, which later jobs may still pass a waiting job; None: no bound."""
        return None
