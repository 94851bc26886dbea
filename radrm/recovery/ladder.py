"""Recovery in steps of memory: the next device with room for the peak plus a step."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.core.settings import fixed
from radrm.recovery.looser import Looser


@dataclass(frozen=True, slots=True)
class Ladder(Looser):
    """RAD-RM's looser recovery (thesis, section 7.2): a GPU with "at least 5GB more available
    memory than the previous allocation", "gradually increasing" until an idle GPU is found.

    Here each step starts at the observed peak, and at what the last step asked for. The thesis
    describes the method and does not evaluate it.
    """

    step_mib: int = fixed(5120)
    """The MiB that each step adds."""
    name: str = "ladder"

    def next_mib(self, job: Job, attempt: Attempt, evidence: OutOfMemory) -> int | None:
        """Return the peak, or the last step's need if that is more, plus a step."""
        known = [mib for mib in (attempt.peak_mib, job.ask_mib) if mib is not None]
        return max(known) + self.step_mib if known else None
