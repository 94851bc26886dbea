"""What became of the sizes of a run's jobs: how often they changed, and who held the GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from radrm.simulator.run import JobRun, Run


@dataclass(frozen=True, slots=True)
class Sizes:
    """Figures of a run in which jobs may change their number of GPUs.

    `resizes`: all such changes, also by a restart. `mean_gpus`: of a job while it ran, as a mean
    over the jobs that completed. `gpu_held`: the part (0..1) of the GPUs' time in which jobs had
    them. `mean_queue_s`: from submission to the first start. `cpu_efficiency`: the part (0..1) of
    their CPUs that jobs with parameter servers used. None: there is no such job.
    """

    resizes: int
    mean_gpus: float | None
    gpu_held: float | None
    mean_queue_s: float | None
    cpu_efficiency: float | None = None


def sizes_of(run: Run, begin_s: float, end_s: float) -> Sizes | None:
    """Return these figures between two times; None if no job of the run is elastic."""
    if not any(each.job.elastic for each in run.jobs):
        return None
    gpus = any(each.job.gpus for each in run.jobs)
    started = [each for each in run.jobs if each.attempts]
    ended = [each for each in started if each.ended_s is not None]
    span_s = (end_s - begin_s) * len(run.devices)
    return Sizes(
        resizes=sum(map(_resizes, run.jobs)),
        mean_gpus=_mean(
            _gpu_s(each) / run_s for each in ended if each.job.gpus and (run_s := _run_s(each)) > 0
        ),
        gpu_held=_held_s(run) / span_s if span_s > 0 and gpus else None,
        mean_queue_s=_mean(e.attempts[0].started_s - e.job.submit_s for e in started),
        cpu_efficiency=_cpu_efficiency(started),
    )


def _cpu_efficiency(jobs: Iterable[JobRun]) -> float | None:
    known = [each.cpu_s for each in jobs if each.cpu_s is not None]
    had_s = sum(had for _, had in known)
    return sum(used for used, _ in known) / had_s if had_s > 0 else None


def _resizes(job: JobRun) -> int:
    if job.resizes:
        return job.resizes
    counts = [len(devices) for each in job.attempts for _, _, devices in each.held()]
    return sum(one != other for one, other in pairwise(counts))


def _gpu_s(job: JobRun) -> float:
    return sum(
        (until_s - from_s) * len(devices)
        for attempt in job.attempts
        for from_s, until_s, devices in attempt.held()
    )


def _run_s(job: JobRun) -> float:
    return sum(attempt.ended_s - attempt.started_s for attempt in job.attempts)


def _held_s(run: Run) -> float:
    """Return the GPU seconds in which at least one job had the GPU."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for job in run.jobs:
        for attempt in job.attempts:
            for from_s, until_s, devices in attempt.held():
                for at in devices:
                    spans.setdefault(at, []).append((from_s, until_s))
    return sum(_covered_s(each) for each in spans.values())


def _covered_s(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of these spans."""
    total, reached_s = 0.0, float("-inf")
    for from_s, until_s in sorted(spans):
        total += max(0.0, until_s - max(from_s, reached_s))
        reached_s = max(reached_s, until_s)
    return total


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None
