"""No recovery: a death for want of memory is the job's end."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.core.rules import GiveUp


@dataclass(frozen=True, slots=True)
class NoRecovery:
    """The baseline without the method of RAD-RM's thesis, section 6.2.3.

    The job fails with outcome `oom`; `--retries` is for plain failures and does not help.
    """

    name: str = "none"

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> GiveUp:
        return GiveUp("recovery is off here (recovery = none)")
