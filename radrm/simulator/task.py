"""One job of a trace in one run: what is drawn for it, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import ArrayElement, Dependency, Estimate
from radrm.simulator.courses import Course
from radrm.simulator.traces.job import TraceJob


@dataclass(frozen=True, slots=True)
class Task:
    """A job of the trace with its random values. At submission `auto` puts its estimates
    before the ones here."""

    job: TraceJob
    course: Course
    estimates: tuple[Estimate, ...]
    declared_mib: int | None
    after: tuple[Dependency, ...] = ()
    array: tuple[int, int] | None = None
    """The position of the array's first job, and this job's number in the array."""

    @property
    def element(self) -> ArrayElement | None:
        """Its place in its array, by the ids that the loop gives; None for another job."""
        if self.array is None:
            return None
        first, number = self.array
        return ArrayElement(first + 1, number, self.job.at_once)
