"""First in, first out, as RAD-RM has it (thesis, section 6.2.1, step 6)."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Instant, Job
from radrm.core.rules import Order


@dataclass(frozen=True, slots=True)
class Fifo(Order):
    """Sort jobs by their submission. A job that was requeued after its end counts from then."""

    name: str = "fifo"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        return (*job.place, job.id)
