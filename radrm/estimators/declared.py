"""The submitter's figure, or an earlier measurement: the oracle of the literature."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import DECLARED, Estimate
from radrm.core.words import Quantity
from radrm.estimators.interface import Description
from radrm.interference.chips import chip_of
from radrm.structs import replace


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
        found = tuple(
            Estimate(quantity=quantity, value=value, upper=value, source=self.name)
            for quantity, value in figures
            if value is not None
        )
        if job.smact_type is None:
            return found
        return tuple(_about(job, e) if e.quantity is Quantity.SMACT else e for e in found)


def _about(job: Description, estimate: Estimate) -> Estimate:
    """Return the declared SM activity with the kind of GPU that it is about."""
    assert job.smact_type is not None
    chip = chip_of(job.smact_type, job.chips)
    if chip is not None:
        return replace(estimate, chip=chip)
    why = f"SM activity: not scaled, because the SMs of a {job.smact_type} are unknown"
    return replace(estimate, guesses=(why,))


# ------------------------------------------------------------------
# No estimate: the policy reserves its `floor_mib`, and recovery reruns jobs that need more.


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """The variant of RAD-RM's thesis, section 6.4.2, that relies on recovery alone."""

    name: str = "none"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        return ()
