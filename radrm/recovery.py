"""Recoveries: what follows GPU out-of-memory? One class each, registered below."""

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

    Recovery as published: the job is next, on an idle device that others may join later.
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


@dataclass(frozen=True, slots=True)
class OwnDevice(IdleDevice):
    """The safest and most wasteful rule: no neighbour can make a recovered job die again.

    All else is as in `exclusive`.

    Recovery on a device of its own: no job joins it, even if memory stays unused.
    """

    name: str = "own-device"

    def wants_own_device(self, job: Job, attempt: Attempt) -> bool:
        """Return True: every recovered job has a device of its own."""
        return True


@dataclass(frozen=True, slots=True)
class Looser(IdleDevice):
    """Recovery that does not wait for an idle device (RAD-RM thesis, section 7.2).

    The job is next, wherever the site's policy finds the memory that `next_mib` asks for. The
    devices of its deaths come last. After `tries` deaths, or if no device has so much, it is
    recovered as by `exclusive`; so is a program that takes a part of the GPU's total memory. After
    a neighbour's growth a job asks for no more than before.

    What the looser recoveries have in common: a few tries by the site's policy come first.
    """

    tries: int = fixed(2)
    """Recoveries by the site's policy before the job gets an idle device."""

    def again(
        self,
        job: Job,
        attempt: Attempt,
        evidence: OutOfMemory,
        floor_mib: int | None,
        largest_mib: int,
    ) -> Again:
        ask_mib = job.ask_mib
        if evidence.of_neighbour:
            looser = job.victim_count <= self.tries
        else:
            ask_mib = self.next_mib(job, attempt, evidence)
            deaths = job.oom_count - job.victim_count
            looser = deaths <= self.tries and ask_mib is not None and ask_mib <= largest_mib
            looser = looser and evidence.fraction is None
        if not looser or job.own_device:
            return Again(floor_mib, self.wants_own_device(job, attempt), use_last=job.died_on)
        return Again(
            floor_mib, own_device=False, idle_device=False, ask_mib=ask_mib, use_last=job.died_on
        )

    def next_mib(self, job: Job, attempt: Attempt, evidence: OutOfMemory) -> int | None:
        """Return the MiB per GPU to find next; None if nothing is known to start from."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Ladder(Looser):
    """RAD-RM's looser recovery (thesis, section 7.2): a GPU with "at least 5GB more available
    memory than the previous allocation", "gradually increasing" until an idle GPU is found.

    Here each step starts at the observed peak, and at what the last step asked for. The thesis
    describes the method and does not evaluate it.

    Recovery in steps of memory: the next device with room for the peak plus a step.
    """

    step_mib: int = fixed(5120)
    """The MiB that each step adds."""
    name: str = "ladder"

    def next_mib(self, job: Job, attempt: Attempt, evidence: OutOfMemory) -> int | None:
        """Return the peak, or the last step's need if that is more, plus a step."""
        known = [mib for mib in (attempt.peak_mib, job.ask_mib) if mib is not None]
        return max(known) + self.step_mib if known else None


@dataclass(frozen=True, slots=True)
class Doubling(Looser):
    """DLRover's recovery: a worker that fails with OOM is launched "with double memory".

    Wang et al., DLRover, section 4.2, for the host memory of workers. Here it is the GPU memory
    that was reserved for the job where it died, or its peak if that is more.

    Recovery with twice the memory that the job had.
    """

    name: str = "doubling"

    def next_mib(self, job: Job, attempt: Attempt, evidence: OutOfMemory) -> int | None:
        """Return twice what the job had."""
        reserved = evidence.blame.reserved_mib if evidence.blame is not None else None
        known = [mib for mib in (attempt.peak_mib, reserved) if mib is not None]
        return 2 * max(known) if known else None


@dataclass(frozen=True, slots=True)
class NoRecovery:
    """The baseline: RAD-RM without the recovery of its thesis, section 6.2.3.

    The job fails with outcome `oom`; `--retries` is for plain failures and does not help.

    No recovery: a job that runs out of GPU memory fails.
    """

    name: str = "none"

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> GiveUp:
        return GiveUp("recovery is off here (recovery = none)")


RECOVERIES = {
    "exclusive": "radrm.recovery:IdleDevice",
    "own-device": "radrm.recovery:OwnDevice",
    "ladder": "radrm.recovery:Ladder",
    "doubling": "radrm.recovery:Doubling",
    "none": "radrm.recovery:NoRecovery",
}
