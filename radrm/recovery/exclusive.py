"""Recovery as published: next in line, on a device of its own. Here it is bounded."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.core.rules import Again, GiveUp
from radrm.core.units import show_mib


@dataclass(frozen=True, slots=True)
class OwnDevice:
    """RAD-RM's recovery (thesis, section 6.2.3): the recovery queue is served by *Exclusive*.

    What the job held when it died plus the request that failed is a lower bound
    of its need from now on. After `max_recoveries` deaths, or once that bound is
    beyond every device, the job fails.
    """

    max_recoveries: int = 3
    name: str = "exclusive"

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> Again | GiveUp:
        floor = lower_bound_mib(job, attempt, evidence)
        if job.oom_count > self.max_recoveries:
            return GiveUp(f"it was recovered {self.max_recoveries} times, which is the limit")
        if floor is not None and largest_mib and floor > largest_mib:
            return GiveUp(
                f"it needs at least {show_mib(floor)} and "
                f"the largest device has {show_mib(largest_mib)}"
            )
        return Again(memory_floor_mib=floor, own_device=True)


def lower_bound_mib(job: Job, attempt: Attempt, evidence: OutOfMemory) -> int | None:
    """What a death has proven: the peak seen plus the request refused, never less than before."""
    seen = attempt.peak_mib
    proven = [job.memory_floor_mib or 0]
    if seen is not None:
        proven.append(seen + (evidence.requested_mib or 0))
    elif evidence.requested_mib is not None:
        proven.append(evidence.requested_mib)
    return max(proven) or None
