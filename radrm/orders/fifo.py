"""First in, first out, as RAD-RM has it (thesis, section 6.2.1, step 6)."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Job


@dataclass(frozen=True, slots=True)
class Fifo:
    """Sort jobs by their submission. A job that was requeued after its end counts from then."""

    strict: bool = True
    """`true` (as published): no job passes one that cannot start yet."""
    name: str = "fifo"

    def key(self, job: Job) -> tuple[float, ...]:
        return (*job.place, job.id)
