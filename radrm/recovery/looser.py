"""What the looser recoveries have in common: a few tries by the site's policy come first."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.core.rules import Again
from radrm.core.settings import fixed
from radrm.recovery.exclusive import IdleDevice


@dataclass(frozen=True, slots=True)
class Looser(IdleDevice):
    """Recovery that does not wait for an idle device (RAD-RM thesis, section 7.2).

    The job is next, wherever the site's policy finds the memory that `next_mib` asks for. The
    devices of its deaths come last. After `tries` deaths, or if no device has so much, it is
    recovered as by `exclusive`; so is a program that takes a part of the GPU's total memory. After
    a neighbour's growth a job asks for no more than before.
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
