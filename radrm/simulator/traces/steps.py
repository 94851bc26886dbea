"""How long a training step takes with so many workers: columns `io_s compute_s sync_s`.

    step(n, c) = io_s x cpus / min(c, cpus_max) + compute_s / n + sync_s x (n - 1)

in seconds, for n workers (one per GPU) with c CPUs each. The global batch is the same for any n.

- `io_s`: the wait for data, if each worker has `cpus` CPUs; with more CPUs it becomes shorter, up
  to `cpus_max`. A worker uses `io_s x cpus` CPU seconds a step for its data.
- `compute_s`: the computing of one worker alone; workers share it out.
- `sync_s`: what each further worker adds, for the exchange of gradients.

A job with `gpus` 0 has parameter servers and workers instead (`server_steps`), by equation 1 of
DLRover: a worker reads data for `io_s`; it computes for `compute_s` with `cpus` CPUs, and faster
with up to `cpus_max`; a server with `cpus` CPUs updates all parameters in `sync_s`.

A job without these columns computes only, so it is n times as fast with n times the GPUs. A trace's
`duration_s` holds for the smallest size: `gpus` workers with `cpus` CPUs each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from radrm.simulated.training_steps import StepModel
from radrm.simulator.traces.job import TraceJob

ELASTIC = ("gpus_max", "cpus_max", "io_s", "compute_s", "sync_s")
"""The columns of elastic jobs. 0 means the same as an empty cell."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The parts of a job's step in seconds, its fewest workers, and the range of their CPUs."""

    io_s: float
    compute_s: float
    sync_s: float
    workers: int
    cpus: float | None = None
    cpus_max: float | None = None

    def wait_s(self, cpus: float | None = None) -> float:
        """Return the part of a step in which workers with so many CPUs each wait for data."""
        if self.cpus is None or cpus is None:
            return self.io_s
        return self.io_s * self.cpus / min(cpus, self.cpus_max or self.cpus)

    def step_s(self, workers: int, cpus: float | None = None) -> float:
        """Return the time of a step; `cpus` None: those of the smallest size."""
        return self.wait_s(cpus) + self.compute_s / workers + self.sync_s * (workers - 1)

    @property
    def least_size_s(self) -> float:
        """The time of a step at the smallest size."""
        return self.step_s(self.workers)

    def pace(self, workers: int, cpus: float | None = None) -> float:
        """Return how many times as fast the job is as at its smallest size."""
        return self.least_size_s / self.step_s(workers, cpus)

    def data_wait(self, workers: int, cpus: float | None = None) -> float:
        """Return the part of a step (0..1) in which the workers wait for data."""
        return self.wait_s(cpus) / self.step_s(workers, cpus)

    def activity(self, workers: int, cpus: float | None = None) -> float:
        """Return a GPU's SM activity as a multiple of that at the smallest size.

        GPUs are as active as they compute: each of more workers computes less of a step.
        """
        return self.pace(workers, cpus) * self.workers / workers

    def cpu_s(self, steps: float) -> float | None:
        """Return the CPU seconds of a worker for so many steps; None if its CPUs are unknown."""
        return None if self.cpus is None else steps * self.io_s * self.cpus


def server_steps(job: TraceJob) -> StepModel:
    """Return the step of a job with parameter servers."""
    io_s, compute_s, sync_s = _parts(job)
    cpus = job.cpus or 1.0
    most = max(cpus, job.cpus_max or cpus)
    return StepModel(io_s, compute_s * cpus / most, sync_s, most, sync_s * cpus)


def _parts(job: TraceJob) -> tuple[float, float, float]:
    parts = job.io_s or 0.0, job.compute_s or 0.0, job.sync_s or 0.0
    return parts if any(parts) else (0.0, 1.0, 0.0)


def step_times(job: TraceJob) -> StepTimes | None:
    """Return the step of an elastic job of a trace on GPUs; None for another job."""
    if not job.elastic or not job.gpus:
        return None
    return StepTimes(*_parts(job), job.gpus, job.cpus, job.cpus_max)


def best_of(job: TraceJob) -> tuple[float, float]:
    """Return the least GPU time and the least run time of an elastic job at any of its sizes, as
    parts of those at its smallest size. With parameter servers there is no such bound: 0."""
    steps = step_times(job)
    if steps is None:
        return 0.0, 0.0
    sizes = range(job.gpus, (job.gpus_max or job.gpus) + 1)
    paces = [steps.pace(workers, job.cpus_max) for workers in sizes]
    # An activity above 1 is cut off: the GPU then does less work than the model counts.
    loads = [
        min(1.0, job.smact * steps.activity(n, job.cpus_max)) * n / pace
        for n, pace in zip(sizes, paces, strict=True)
    ]
    whole = job.smact * job.gpus
    return (min(loads) / whole if whole else 1.0), 1 / max(paces)


def with_sizes(
    job: TraceJob, gpus_max: int, cpus_max: float | None, parts: Sequence[float | None]
) -> TraceJob:
    """Return a job with its largest size and the parts of its step. Raises ValueError."""
    if gpus_max and gpus_max < job.gpus:
        raise ValueError(f"gpus_max {gpus_max} is below gpus {job.gpus}, which is the fewest")
    if cpus_max and cpus_max < (job.cpus or cpus_max + 1):
        start = f"cpus {job.cpus:g}, with which it starts" if job.cpus else "what it starts with"
        raise ValueError(f"cpus_max {cpus_max:g} is below {start}; write cpus, too")
    if gpus_max and job.profile:
        raise ValueError("gpus_max and duration_s@KIND both say how it scales; leave one out")
    if not job.gpus and (gpus_max or not cpus_max):
        raise ValueError("gpus 0 is for parameter servers: write cpus and cpus_max, no gpus_max")
    io_s, compute_s, sync_s = parts
    return replace(
        job,
        gpus_max=gpus_max or None,
        cpus_max=cpus_max,
        io_s=io_s,
        compute_s=compute_s,
        sync_s=sync_s,
    )
