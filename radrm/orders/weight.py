"""The highest weight first: the priority scheduler (PS) that ANDREAS compares itself with.

Filippini et al., arXiv 2105.05080, section V.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Instant, Job
from radrm.core.rules import Order


@dataclass(frozen=True, slots=True)
class Weight(Order):
    """Sort jobs by their weight, the highest first, and jobs of one weight by submission."""

    name: str = "weight"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        return (-job.spec.weight, *job.place, job.id)

    def bound(self, job: Job, now: Instant) -> str | None:
        return f"jobs of a weight above {job.spec.weight:g} may pass it"
