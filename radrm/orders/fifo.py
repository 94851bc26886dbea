"""First in, first out, as RAD-RM has it (thesis, section 6.2.1, step 6)."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Job


@dataclass(frozen=True, slots=True)
class Fifo:
    """By submission; a job that had ended and was requeued, by its requeue.

    `strict` (as published): nobody overtakes a head that cannot start.
    """

    strict: bool = True
    name: str = "fifo"

    def key(self, job: Job) -> tuple[float, ...]:
        return (*job.place, job.id)
