"""How one job behaves in a run: its stages, its work, its memory and its demand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from radrm.core.records import ArrayElement, Dependency, Estimate, Profiled
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
    nominal_start_s: float = 0.0
    """The start-up that is a part of the trace's run times, at most half of each."""

    def continued(self, restart_s: float) -> Course:
        """Return the course of an attempt that goes on from saved work after `restart_s`."""
        sooner_s = self.computes_s - restart_s
        return replace(
            self,
            computes_s=restart_s,
            peak_s=self.peak_s - sooner_s,
            steady_s=self.steady_s - sooner_s,
        )

    def pace(self, usual_s: float, here_s: float) -> float:
        """Return how fast it computes where its run time is `here_s` instead of `usual_s`."""
        start_s = self.nominal_start_s
        return (usual_s - min(start_s, usual_s / 2)) / (here_s - min(start_s, here_s / 2))


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
        nominal_start_s=nominal_start_s,
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
    profile: tuple[Profiled, ...] = ()
    """What is known of its run times on the kinds of GPU."""
    most_gpus: int = 0
    """The most GPUs that it can use; its trace's `gpus` are the fewest."""

    @property
    def element(self) -> ArrayElement | None:
        """Its place in its array, by the ids that the loop gives; None for another job."""
        if self.array is None:
            return None
        first, number = self.array
        return ArrayElement(first + 1, number, self.job.at_once)
