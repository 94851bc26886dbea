"""No estimate: the policy reserves its `floor_mib`, and recovery reruns jobs that need more."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Estimate
from radrm.estimators.interface import Description


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """The variant of RAD-RM's thesis, section 6.4.2, that relies on recovery alone."""

    name: str = "none"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        return ()
