"""How one job behaves in a run: its stages, its work, its memory and its demand."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from radrm.core.records import (
    ArrayElement,
    Dependency,
    Device,
    Estimate,
    Needs,
    Profiled,
    Role,
)
from radrm.errors import RadrmError
from radrm.interference.model import Demand, share_weight
from radrm.lab.simulator.traces.job import TraceJob, seconds_on
from radrm.structs import replace

_SHORTEST_S = 1e-6


class Course(Struct, frozen=True):
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


class Task(Struct, frozen=True):
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

    @property
    def role(self) -> Role:
        """Its GPUs: a number from the trace's up to `most_gpus`, one for each task."""
        job = self.job
        if job.elastic:
            needs = Needs(1, self.declared_mib, cpus=job.cpus, cpus_max=job.cpus_max)
            return Role(count_min=job.gpus, count_max=self.most_gpus, needs=needs)
        if self.most_gpus <= job.gpus:
            return Role(needs=Needs(gpus=job.gpus, gpu_memory_mib=self.declared_mib))
        needs = Needs(gpus=1, gpu_memory_mib=self.declared_mib)
        return Role(count_min=job.gpus, count_max=self.most_gpus, needs=needs)


def pace_on(task: Task, devices: Sequence[Device]) -> float:
    """Return how fast a job computes on these devices, where it waits for the slowest kind.

    Raises `RadrmError` for devices of several servers, which no job can use together.
    """
    nodes = {device.node for device in devices}
    if len(nodes) > 1:
        where = ", ".join(sorted(nodes))
        raise RadrmError(f"no result: {task.job.name} was placed on several servers ({where})")
    if not task.job.profile or not devices:
        return 1.0
    names = {device.name for device in devices}
    here_s = max(seconds_on(task.job, name, len(devices)) for name in names)
    return task.course.pace(task.job.duration_s, here_s)
