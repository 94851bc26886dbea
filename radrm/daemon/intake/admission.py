"""Which submissions a user's limits admit, and whose submissions wait in the spool.

Theory of operation
-------------------
What no waiting can change (array, environment, priority) makes a FAILED job with the reason. A
user with as many queued jobs as `limits.queued_jobs` *rests*: nothing more is read of this user's
submissions, and nothing is lost. An array enters in parts.

A FAILED job is a row in the store, and does not count as queued. So refusals are counted, too: a
user with more than `REFUSED_AN_HOUR` rests until there is room again. That bounds what a flood of
refused submissions adds to the store.

All memory here is a cache: a restart begins with a new hour.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from radrm.config import NO_LIMITS, LimitsConfig, UserLimits
from radrm.core.events import JobSubmitted
from radrm.core.scheduler import Scheduler
from radrm.host.storage.spool import Envelope

REFUSED_AN_HOUR = 10_000
"""FAILED jobs that a user's refused submissions make in an hour."""
_HOUR_S = 3600.0


class Admission:
    """What each user may submit now. `tick`: a monotonic clock, in seconds."""

    def __init__(self, users: UserLimits, scheduler: Scheduler, tick: Callable[[], float]) -> None:
        self.users = users
        self._scheduler = scheduler
        self._tick = tick
        self._coming: Counter[int] = Counter()
        """The jobs that have been read and are not saved yet, by user."""
        self._refused: dict[int, tuple[float, float]] = {}
        """By user: how many FAILED jobs count, and when that was."""

    def room(self, uid: int) -> int | None:
        """Return how many more jobs of a user may be queued; None: any number."""
        most = self.users.of(uid).queued_jobs
        if not most:
            return None
        return max(0, most - self._scheduler.use_of(uid).queued - self._coming[uid])

    def rests(self, uid: int) -> bool:
        """Return whether nothing of a user is taken in now."""
        return self.room(uid) == 0 or self._counted(uid) >= REFUSED_AN_HOUR

    def note(self, uid: int, read: Sequence[JobSubmitted], refused: bool) -> None:
        """Count the jobs that were read of a submission."""
        self._coming[uid] += len(read)
        if not read or self.users.of(uid) is NO_LIMITS:
            return
        if refused or self._scheduler.hopeless(read[0].job) is not None:
            # At most an hour's worth beyond, for one array may have 100,000 elements.
            counted = min(self._counted(uid) + len(read), 2.0 * REFUSED_AN_HOUR)
            self._refused[uid] = counted, self._tick()

    def kept(self, uid: int, envelope: Envelope) -> Envelope:
        """Return what the store keeps of an envelope: not an environment beyond the limit."""
        most = self.users.of(uid).environment_kib
        if not most or environment_bytes(envelope.environment) <= most * 1024:
            return envelope
        return Envelope(**{**envelope.as_dict(), "environment": {}})

    def forget_read(self) -> None:
        """Forget the jobs that were read: the scheduler counts them now, or they were dropped."""
        self._coming.clear()

    def _counted(self, uid: int) -> float:
        counted, at_s = self._refused.get(uid, (0.0, 0.0))
        left = max(0.0, counted - (self._tick() - at_s) * REFUSED_AN_HOUR / _HOUR_S)
        if not left:
            self._refused.pop(uid, None)
        return left


def environment_bytes(environment: Mapping[str, str]) -> int:
    """Return the size of an environment, as `NAME=value` with an end each."""
    texts = "".join([f"{name}={value}\0" for name, value in environment.items()])
    return len(os.fsencode(texts))


def refuse_job(limits: LimitsConfig, priority: int, elements: int, environment: int) -> str | None:
    """Return which limit a submission exceeds; None if none. `environment`: its bytes."""
    return (
        refuse_priority(limits, priority)
        or _beyond("array_size", "its array has", elements, "elements", limits.array_size)
        or _beyond(
            *("environment_kib", "its environment has", -(-environment // 1024), "KiB"),
            limits.environment_kib,
        )
    )


def refuse_priority(
    limits: LimitsConfig, priority: int, advice: str = "lower --priority"
) -> str | None:
    """Return that a priority is beyond the limit; None if it is not."""
    if priority <= limits.priority_max:
        return None
    most = limits.priority_max
    return (
        f"limits.priority_max: its priority is {priority}, the limit is {most}; {advice}, or ask "
        "an administrator"
    )


def refuse_more(limits: LimitsConfig, queued: int, more: int) -> str | None:
    """Return why a user with so many `queued` jobs cannot have so many `more`; None if possible."""
    if not limits.queued_jobs or queued + more <= limits.queued_jobs:
        return None
    return (
        f"limits.queued_jobs: you have {queued} queued jobs, {more} more would exceed the limit of "
        f"{limits.queued_jobs}; wait until some have started, or cancel some"
    )


_ADVICE = {
    "array_size": "submit it in parts",
    "environment_kib": "submit it with fewer or shorter variables",
}


def _beyond(name: str, has: str, used: int, unit: str, most: int) -> str | None:
    if not most or used <= most:
        return None
    return f"{has} {used} {unit}, the limit is {most}; {_ADVICE[name]}"
