"""Recovery with twice the memory that the job had."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.recovery.looser import Looser


@dataclass(frozen=True, slots=True)
class Doubling(Looser):
    """DLRover's recovery: a worker that fails with OOM is launched "with double memory".

    Wang et al., DLRover, section 4.2, for the host memory of workers. Here it is the GPU memory
    that was reserved for the job where it died, or its peak if that is more.
    """

    name: str = "doubling"

    def next_mib(self, job: Job, attempt: Attempt, evidence: OutOfMemory) -> int | None:
        """Return twice what the job had."""
        reserved = evidence.blame.reserved_mib if evidence.blame is not None else None
        known = [mib for mib in (attempt.peak_mib, reserved) if mib is not None]
        return 2 * max(known) if known else None
