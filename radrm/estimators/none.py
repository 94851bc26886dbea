"""No estimate: the policy's floor is promised and recovery does the rest."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.core.rules import Description


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """RAD-RM thesis, section 6.4.2: relying on the recovery method alone."""

    name: str = "none"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        return ()
