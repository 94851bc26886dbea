"""What the submitter says, or what was measured before: the literature's oracle."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import DECLARED, Estimate
from radrm.core.rules import Description
from radrm.core.words import Quantity


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared figure is value and upper bound in one.

    A prototype job file's measured memory counts as declared (RAD-RM thesis,
    section 6.3.3: oracle baselines).
    """

    name: str = DECLARED

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        measured_mib = job.published.get("measured")
        memory_mib = job.declared_mib if job.declared_mib is not None else measured_mib
        told = (
            (Quantity.MEMORY, memory_mib),
            (Quantity.SMACT, job.declared_smact),
            (Quantity.DURATION, job.declared_duration_s),
        )
        return tuple(
            Estimate(quantity=quantity, value=value, upper=value, source=self.name)
            for quantity, value in told
            if value is not None
        )
