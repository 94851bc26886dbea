"""The earliest due time first (EDF), which is optimal on one machine without overload.

Jackson, "Scheduling a production line to minimize maximum tardiness", UCLA Management Sciences
Research Project, Report 43, 1955. ANDREAS compares itself with it (arXiv 2105.05080, section V).
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Instant, Job
from radrm.core.rules import Order


@dataclass(frozen=True, slots=True)
class Due(Order):
    """Sort jobs by their due time. Those without one are last, by their submission."""

    name: str = "due"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        due_s = job.spec.due_s
        first = (1, 0.0) if due_s is None else (0, due_s)
        return (*first, *job.place, job.id)

    def bound(self, job: Job, now: Instant) -> str | None:
        if job.spec.due_s is None:
            return "it has no due time, so all jobs with one may pass it"
        return "jobs that are due earlier may pass it"
