"""How one job behaves in a run: its stages, its work, its memory and its demand."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import ArrayElement, Dependency, Estimate
from radrm.interference.model import Demand, share_weight
from radrm.simulator.traces.job import TraceJob

_SHORTEST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Course:
    """How one job behaves in this run. It is the same for all its attempts and all policies.

    `computes_s`, `peak_s` and `steady_s` are seconds from the launch to the stage. `work_s`
    is the computing time alone on the server.
    """

    computes_s: float
    peak_s: float
    steady_s: float
    work_s: float
    first_mib: float
    peak_mib: float
    steady_mib: float
    demand: Demand


def course_of(
    job: TraceJob,
    start_up_s: float,
    ramp_s: float,
    hold_s: float,
    first_mib: float,
    steady_part: float,
    work_factor: float,
    nominal_start_s: float,
) -> Course:
    """Return the course of a job with this start-up, ramp and hold.

    `job.duration_s` includes a start-up of `nominal_start_s`. A short job goes through the
    same stages faster: it reaches its peak before half of its work is done.
    """
    nominal_s = min(nominal_start_s, job.duration_s / 2)
    work_s = max(_SHORTEST_S, (job.duration_s - nominal_s) * work_factor)
    computes_s = start_up_s * nominal_s / nominal_start_s if nominal_start_s > 0 else 0.0
    ramp_s = min(ramp_s, work_s / 2)
    steady_mib = job.steady_mib if job.steady_mib is not None else job.memory_mib * steady_part
    return Course(
        computes_s=computes_s,
        peak_s=computes_s + ramp_s,
        steady_s=computes_s + ramp_s + min(hold_s, work_s / 4),
        work_s=work_s,
        first_mib=min(first_mib, job.memory_mib),
        peak_mib=job.memory_mib,
        steady_mib=min(steady_mib, job.memory_mib),
        demand=Demand(job.smact, share_weight(job.family, job.batch_size)),
    )


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
