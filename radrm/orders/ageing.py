"""Ageing: small jobs first, but a job that has waited long enough goes before all younger ones.

Theory of operation
-------------------
Small jobs first gives the least mean waiting time, but a large job could wait forever. So a job
is *old* from `max_wait_s` after its submission (or requeue). Old jobs go before all others,
the oldest first. This follows:
- A job that comes more than `max_wait_s` after another one never goes before it.
- Nothing that is younger goes before an old job.
Both hold among the jobs of one queue and priority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from radrm.core.records import Instant, Job
from radrm.core.rules import Order
from radrm.core.settings import fixed
from radrm.core.units import show_seconds
from radrm.deadlines.costs import UTC, Zone
from radrm.deadlines.remaining import remaining

_SAME_S = 1e-6
"""Times closer than this are equal. It is more than what rounding of boot times can add up to."""


@dataclass(frozen=True, slots=True)
class Ageing(Order):
    """Sort jobs by `size`, and old jobs before all others by their submission."""

    max_wait_s: float = 14_400.0
    """A job that has waited for this long goes before all younger ones. 0: as `fifo`.

    A site that agreed with its users how long a large job may be passed."""
    unknown_duration_s: float = fixed(3600.0)
    """The duration to assume for a job without a prediction of it. A job's time limit bounds
    both."""
    site_zone: Zone = UTC
    """The time zone of dates in messages. Not a setting."""
    first: ClassVar[str] = "shorter"
    """Which jobs go before others, for users."""

    def size(self, job: Job) -> float:
        """Return the size of a job: the smallest is next."""
        raise NotImplementedError

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        old = self.is_old(job, now)
        return (0, 0.0, *job.place) if old else (1, self.size(job), *job.place)

    def changes_s(self, job: Job, now: Instant) -> float | None:
        left_s = self._left_s(job, now)
        return now.boot_s + left_s if left_s > _SAME_S else None

    def bound(self, job: Job, now: Instant) -> str | None:
        left_s = self._left_s(job, now)
        if left_s <= _SAME_S:
            wait = show_seconds(self.max_wait_s)
            return f"it has waited for max_wait_s ({wait}), so no younger job passes it"
        until = self.site_zone.clock(now.wall_s + left_s, now.wall_s)
        return f"{self.first} jobs may start first until {until}"

    def remaining_s(self, job: Job) -> float:
        """Return how long a job is expected to run from its last checkpoint."""
        # That of a waiting job does not depend on the moment.
        left = remaining(job, None, job.submitted, unknown_s=self.unknown_duration_s)
        return 0.0 if left is None else left.value_s

    def is_old(self, job: Job, now: Instant) -> bool:
        """Return whether a job has waited for `max_wait_s`."""
        return self._left_s(job, now) <= _SAME_S

    def _left_s(self, job: Job, now: Instant) -> float:
        """Return the seconds until a job is old."""
        start = job.submitted if job.requeued is None else job.requeued.at
        waited_s = now.since(start)
        if waited_s is None:  # a reboot lies between
            waited_s = now.wall_s - start.wall_s
        return self.max_wait_s - waited_s
