"""Recovery as published: the job is next, on an idle device that others may join later."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.core.rules import Again, GiveUp
from radrm.core.settings import fixed
from radrm.core.units import show_mib


@dataclass(frozen=True, slots=True)
class IdleDevice:
    """RAD-RM's recovery (thesis, sections 6.2.1 step 7, and 6.2.3): the recovery queue is
    served first, by *Exclusive*; "afterward, other tasks can be collocated with this one".

    Here no job joins it until its memory has settled. What it held when it died, plus the
    request that failed, is a lower bound of its need from now on and stays reserved. After a
    second death beside others it gets a device of its own.
    """

    max_recoveries: int = fixed(3)
    """The job fails after this many recoveries. Deaths by a neighbour's growth do not count."""
    name: str = "exclusive"

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> Again | GiveUp:
        floor = lower_bound_mib(job, attempt, evidence)
        if job.oom_count - job.victim_count > self.max_recoveries:
            return GiveUp(f"recovery limit ({self.max_recoveries}) reached", floor)
        if floor is not None and largest_mib and floor > largest_mib:
            return GiveUp(
                f"it needs at least {show_mib(floor)} and "
                f"the largest device has {show_mib(largest_mib)}",
                floor,
            )
        return self.again(job, attempt, evidence, floor, largest_mib)

    def again(
        self,
        job: Job,
        attempt: Attempt,
        evidence: OutOfMemory,
        floor_mib: int | None,
        largest_mib: int,
    ) -> Again:
        """Return how the job runs again. `floor_mib`: the need that its deaths have proven."""
        return Again(floor_mib, self.wants_own_device(job, attempt))

    def wants_own_device(self, job: Job, attempt: Attempt) -> bool:
        """Return whether no job may join this one: it started on an idle device before."""
        beside_others = any(usage.shared for usage in attempt.usage)
        return job.own_device or (job.recovers_idle and beside_others)


def lower_bound_mib(job: Job, attempt: Attempt, evidence: OutOfMemory) -> int | None:
    """Return the need that deaths have proven: the peak plus the request that failed."""
    seen = attempt.peak_mib
    proven = [job.memory_floor_mib or 0]
    if seen is not None:
        proven.append(seen + (evidence.requested_mib or 0))
    elif evidence.requested_mib is not None:
        proven.append(evidence.requested_mib)
    return max(proven) or None
