"""The submitter's figure, or an earlier measurement: the oracle of the literature."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import DECLARED, Estimate
from radrm.core.words import Quantity
from radrm.estimators.interface import Description


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared figure is the value and the upper bound.

    The measured memory of a prototype job file counts as declared (RAD-RM thesis, section
    6.3.3: oracle baselines).
    """

    name: str = DECLARED

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        measured_mib = job.published.get("measured")
        memory_mib = job.declared_mib if job.declared_mib is not None else measured_mib
        figures = (
            (Quantity.MEMORY, memory_mib),
            (Quantity.SMACT, job.declared_smact),
            (Quantity.DURATION, job.declared_duration_s),
        )
        return tuple(
            Estimate(quantity=quantity, value=value, upper=value, source=self.name)
            for quantity, value in figures
            if value is not None
        )
