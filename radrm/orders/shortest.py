"""The shortest job first, with ageing.

Least mean waiting time on one machine: Smith, "Various optimizers for single-stage production",
Naval Research Logistics Quarterly 3, 1956.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Job
from radrm.orders.ageing import Ageing


@dataclass(frozen=True, slots=True)
class Shortest(Ageing):
    """Sort jobs by the time that they are expected to run."""

    name: str = "shortest"

    def size(self, job: Job) -> float:
        return self.remaining_s(job)
