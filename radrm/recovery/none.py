"""No recovery: a job that runs out of GPU memory fails."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.core.rules import GiveUp


@dataclass(frozen=True, slots=True)
class NoRecovery:
    """The baseline: RAD-RM without the recovery of its thesis, section 6.2.3.

    The job fails with outcome `oom`; `--retries` is for plain failures and does not help.
    """

    name: str = "none"

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> GiveUp:
        return GiveUp("recovery is off here (recovery = none)")
