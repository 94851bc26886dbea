"""The smallest work first, with ageing: work is the activity of SMs that a job needs in all.

A job that fills half of two GPUs for an hour takes as much from others as one that fills one GPU
for an hour. So the rule of the shortest job (`shortest.py`) weighs the time by the part of the
server that a job takes.

Users take turns by what they have used lately: between the jobs of several users, the work counts
times the recent use of its user (`fair.py`), with one more GPU. So a sweep does not hold the short
jobs of others, and a small job of somebody who has used much does not wait for hours of work of
somebody who has used nothing. That is the virtual finish time of weighted fair queueing (Demers,
Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm", SIGCOMM 1989) as a
product: the sum would let use decide alone once users have had many hours. For one user nothing
changes.

Nobody waits for ever: of one user's jobs, the old ones go first. Beside jobs of others, an old one
counts as of unknown duration. Old jobs go before those of all users once none of the user's jobs
has started for `max_wait_s`; then others are next. If old jobs went before all, as those of one
user do, a sweep would grow old as a whole, and go before all that comes later.

A job on several GPUs may start earlier than its work says (`wide_weight`). Only a job that needs
several does: if asking for a second GPU were enough, every user would ask for one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from radrm.core.records import Instant, Job, UserUse
from radrm.core.settings import fixed
from radrm.core.units import show_seconds
from radrm.core.words import Quantity
from radrm.orders.ageing import Ageing
from radrm.orders.fair import Fair

_LEAST_WORK_S = 120.0
"""Each job counts as so much more work, so that among small jobs the users' use decides."""


@dataclass(frozen=True, slots=True)
class SmallestWork(Ageing):
    """Sort jobs by expected duration x GPUs x SM activity."""

    unknown_smact: float = fixed(1.0)
    """The SM activity to assume for a job without a prediction of it."""
    wide_weight: float = 1.0
    """The work of a job on several GPUs counts this many times. Below 1 it starts earlier, if one
    GPU could not show its predicted SM activity; 0: before all others.

    A site with many jobs on several GPUs, which would start last."""
    shares: Fair = field(default_factory=Fair)
    """The weights of users and groups: those of `fair`. Not a setting."""
    name: str = "smallest-work"
    first: ClassVar[str] = "smaller"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        tier, size, *place = Ageing.key(self, job, now)
        work = size + _LEAST_WORK_S if tier else self.unknown_duration_s
        return (tier, work, *place)

    def turn(self, use: UserUse) -> tuple[float, float]:
        """Weigh the work of a user's jobs by the user's recent use with one more GPU.

        The old jobs of a user go before all others only if none has started for `max_wait_s`.
        """
        return float(use.idle_s < self.max_wait_s), self.shares.with_one_more(use)

    def bound(self, job: Job, now: Instant) -> str | None:
        if not self.is_old(job, now):
            return Ageing.bound(self, job, now)
        wait = show_seconds(self.max_wait_s)
        return f"it has waited for max_wait_s ({wait}), so no younger job of its user passes it"

    def size(self, job: Job) -> float:
        smact = job.predicted(Quantity.SMACT)
        active = self.unknown_smact if smact is None else smact
        gpus = max(1, job.spec.gpus)
        needs_them = smact is not None and gpus * smact > 1.0
        weight = 1.0 if gpus == 1 or (self.wide_weight < 1 and not needs_them) else self.wide_weight
        return self.remaining_s(job) * gpus * active * weight
