"""The metrics of a `Run`, as the RAD-RM thesis defines them (section 6.3.4).

- Trace total time (`makespan_s`): from the first submission to the end of the last job.
- Execution time: the sum over a job's attempts, including those that died.
- Completion time (JCT): from a job's submission to its end.
- Waiting time: completion time minus execution time.

The 95th percentile is the nearest rank. Means are over the jobs that completed;
`unfinished` counts the others.

Costs count all jobs: one that never completed is late until the end of the run. A trace begins at
0:00 of a day, for prices by the hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil, sqrt
from statistics import fmean, stdev
from typing import Any

from msgspec import Struct

from radrm.core.words import Outcome
from radrm.deadlines import Costs
from radrm.lab.simulator.run import DeviceRun, DeviceStep, JobRun, Run

# ------------------------------------------------------------------
# What became of the sizes of a run's jobs: how often they changed, and who held the GPUs.


ELASTIC = ("resizes", "mean_gpus", "gpu_held", "mean_queue_s", "cpu_efficiency")
"""The metrics that only traces with elastic jobs have."""


def sizes_of(run: Run, begin_s: float, end_s: float) -> dict[str, Any]:
    """Return the metrics `ELASTIC` between two times; none if no job of the run is elastic."""
    if not any(each.job.elastic for each in run.jobs):
        return {}
    gpus = any(each.job.gpus for each in run.jobs)
    started = [each for each in run.jobs if each.attempts]
    ended = [each for each in started if each.ended_s is not None]
    span_s = (end_s - begin_s) * len(run.devices)
    counts = [
        _gpu_s(each) / ran_s for each in ended if each.job.gpus and (ran_s := execution_s(each)) > 0
    ]
    return {
        "resizes": sum(map(_resizes, run.jobs)),
        "mean_gpus": _mean(counts),
        "gpu_held": _held_s(run) / span_s if span_s > 0 and gpus else None,
        "mean_queue_s": _mean([e.attempts[0].started_s - e.job.submit_s for e in started]),
        "cpu_efficiency": _cpu_efficiency(started),
    }


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


_IN_TIME_S = 1e-6
"""A job that is late by less is in time: sums of times have rounding errors."""


class Metrics(Struct, frozen=True):
    """The metrics of one run. None: there was nothing to take a mean of, or it is not measured.

    `gpu_smact_mean` (0..1) and `gpu_memory_mean` (0..1, of the device's memory) are means
    over all devices, from the first submission to the last end. `energy_j` is the sum over
    the same devices and time. `tardiness_s` is the weighted mean delay of the jobs with a
    due time, `late_fraction` (0..1) the part of them that ended late. `preemptions` counts the
    attempts that were stopped for others or to move. Costs are in the site's currency;
    `energy_cost` is of whole servers by their GPUs in use where the site states their power, else
    of the GPUs.

    The last five are for traces with elastic jobs. `resizes`: all changes of a job's number of
    GPUs, also by a restart. `mean_gpus`: of a job while it ran, as a mean over the jobs that
    completed. `gpu_held`: the part (0..1) of the GPUs' time in which jobs had them. `mean_queue_s`:
    from submission to the first start. `cpu_efficiency`: the part (0..1) of their CPUs that jobs
    with parameter servers used.
    """

    jobs: int
    unfinished: int
    makespan_s: float
    mean_wait_s: float | None
    mean_exec_s: float | None
    mean_jct_s: float | None
    p95_jct_s: float | None
    oom_count: int
    energy_j: float | None
    gpu_smact_mean: float | None
    gpu_memory_mean: float
    tardiness_s: float | None = None
    late_fraction: float | None = None
    energy_cost: float | None = None
    tardiness_cost: float | None = None
    total_cost: float | None = None
    preemptions: int = 0
    resizes: int | None = None
    mean_gpus: float | None = None
    gpu_held: float | None = None
    mean_queue_s: float | None = None
    cpu_efficiency: float | None = None


NAMES = Metrics.__struct_fields__
MEASURED = tuple(name for name in NAMES if name not in ("jobs", "unfinished", *ELASTIC))


def metrics(run: Run, costs: Costs | None = None) -> Metrics:
    """Return the metrics of one run. Without `costs` it has none of these."""
    begin_s = min((each.job.submit_s for each in run.jobs), default=0.0)
    end_s = max(run.ended_s, begin_s)
    ended = [each for each in run.jobs if each.ended_s is not None]
    spans = [_span(each) for each in ended]
    ran = [execution_s(each) for each in ended]
    used = [_used(device, begin_s, end_s) for device in run.devices]
    energy = None if costs is None else _energy_cost(run, costs, begin_s, end_s)
    late = None if costs is None else _tardiness_cost(run, costs, end_s)
    return Metrics(
        jobs=len(run.jobs),
        unfinished=len(run.jobs) - len(ended),
        makespan_s=end_s - begin_s,
        mean_wait_s=_mean([span - r for span, r in zip(spans, ran, strict=True)]),
        mean_exec_s=_mean(ran),
        mean_jct_s=_mean(spans),
        p95_jct_s=percentile(spans, 0.95) if spans else None,
        oom_count=run.oom_count,
        energy_j=sum(each.energy_j for each in used),
        gpu_smact_mean=_mean([each.smact for each in used]) or 0.0,
        gpu_memory_mean=_mean([each.memory for each in used]) or 0.0,
        tardiness_s=_tardiness_s(ended),
        late_fraction=_late_fraction(run.jobs),
        energy_cost=energy,
        tardiness_cost=late,
        total_cost=None if energy is None or late is None else energy + late,
        preemptions=sum(
            attempt.outcome is Outcome.PREEMPTED for each in run.jobs for attempt in each.attempts
        ),
        **sizes_of(run, begin_s, end_s),
    )


def execution_s(job: JobRun) -> float:
    """Return the total run time of a job's attempts."""
    return sum(attempt.ended_s - attempt.started_s for attempt in job.attempts)


def percentile(values: Sequence[float], part: float) -> float:
    """Return the nearest rank: the least value that at least `part` (0..1) do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def _span(job: JobRun) -> float:
    assert job.ended_s is not None
    return job.ended_s - job.job.submit_s


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _tardiness_s(ended: Sequence[JobRun]) -> float | None:
    due = [(each.job.weight, each) for each in ended if each.job.due_s is not None]
    weights = sum(weight for weight, _ in due)
    if weights <= 0:
        return None
    late = (w * max(0.0, (e.ended_s or 0.0) - (e.job.due_s or 0.0)) for w, e in due)
    return sum(late) / weights


def _late_fraction(jobs: Sequence[JobRun]) -> float | None:
    late = [
        each.ended_s is None or each.ended_s > each.job.due_s + _IN_TIME_S
        for each in jobs
        if each.job.due_s is not None
    ]
    return _mean(late)


# ------------------------------------------------------------------ costs


def _tardiness_cost(run: Run, costs: Costs, end_s: float) -> float:
    """Return the cost of all late ends; a job that never completed is late until the end."""
    total = 0.0
    for each in run.jobs:
        if each.job.due_s is not None:
            ended_s = end_s if each.ended_s is None else each.ended_s
            total += costs.tardiness_cost(each.job.weight, ended_s - each.job.due_s)
    return total


def _energy_cost(run: Run, costs: Costs, begin_s: float, end_s: float) -> float:
    """Return the cost of the energy of all servers, or of their GPUs where theirs is unknown."""
    places: dict[tuple[str, str], set[int]] = defaultdict(set)
    for at, device in enumerate(run.devices):
        places[device.node, device.name].add(at)
    busy = _busy_spans(run)
    total = 0.0
    for (_, name), here in places.items():
        if costs.node_w(name, 1) is not None:
            for from_s, until_s, count in _in_use([busy[at] for at in here]):
                watts = costs.node_w(name, count) or 0.0
                total += costs.cost_of_watts(watts, from_s, until_s - from_s)
            continue
        for at in here:
            for step, seconds in step_durations(run.devices[at], begin_s, end_s):
                from_s = max(step.at_s, begin_s)
                total += costs.cost_of_watts(step.power_w, from_s, seconds)
    return total


def _busy_spans(run: Run) -> dict[int, list[tuple[float, float]]]:
    """Return when each device had an attempt: spans that do not overlap, in order."""
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    held = [span for each in run.jobs for attempt in each.attempts for span in attempt.held()]
    for from_s, until_s, devices in sorted(held, key=lambda span: span[0]):
        for at in devices:
            before = spans[at]
            if before and from_s <= before[-1][1]:
                before[-1] = (before[-1][0], max(before[-1][1], until_s))
            else:
                before.append((from_s, until_s))
    return spans


def _in_use(devices: Sequence[Sequence[tuple[float, float]]]) -> Iterator[tuple[float, float, int]]:
    """Yield how many of some devices are busy, from when until when; not while none is."""
    changes = sorted(
        change
        for spans in devices
        for from_s, until_s in spans
        for change in ((from_s, 1), (until_s, -1))
    )
    count, since_s = 0, 0.0
    for at_s, change in changes:
        if count and at_s > since_s:
            yield since_s, at_s, count
        count, since_s = count + change, at_s


# ------------------------------------------------------------------ devices


class _Used(Struct, frozen=True):
    """One device's means (0..1) and energy."""

    smact: float
    memory: float
    energy_j: float


def _used(device: DeviceRun, begin_s: float, end_s: float) -> _Used:
    smact = memory = energy_j = 0.0
    for step, seconds in step_durations(device, begin_s, end_s):
        smact += step.smact * seconds
        memory += step.memory_mib * seconds
        energy_j += step.power_w * seconds
    whole_s = end_s - begin_s
    if whole_s <= 0:
        return _Used(0.0, 0.0, 0.0)
    return _Used(smact / whole_s, memory / device.total_mib / whole_s, energy_j)


def step_durations(
    device: DeviceRun, begin_s: float, end_s: float
) -> Iterator[tuple[DeviceStep, float]]:
    """Yield each step, in order, with its seconds between `begin_s` and `end_s`."""
    steps = device.steps
    for at, step in enumerate(steps):
        until = steps[at + 1].at_s if at + 1 < len(steps) else end_s
        seconds = min(until, end_s) - max(step.at_s, begin_s)
        if seconds > 0:
            yield step, seconds


# ------------------------------------------------------------------ several runs


class Spread(Struct, frozen=True):
    """A metric over runs with several seeds: mean and sample standard deviation.

    None: unknown. One run has no standard deviation.
    """

    mean: float | None
    sd: float | None


def over_seeds(runs: Sequence[Metrics]) -> dict[str, Spread]:
    """Return the spread of every metric over one or more runs of the same jobs."""
    return {name: spread([getattr(run, name) for run in runs]) for name in NAMES}


def spread(values: Sequence[float | None]) -> Spread:
    """Return mean and standard deviation. Both are None if any value is unknown."""
    known = [v for v in values if v is not None]
    if not known or len(known) < len(values):
        return Spread(None, None)
    sd = stdev(known) if len(known) > 1 else None
    return Spread(fmean(known), sd)


class Change(Struct, frozen=True):
    """How far one figure is below another, as a share of the other: 0.23 is 23 % less.

    `low` to `high` is about the 95 % interval of the mean over the seeds; None with one seed.
    """

    gain: float
    low: float | None = None
    high: float | None = None


def gain(values: Sequence[float], others: Sequence[float]) -> Change | None:
    """Return how far `values` are below `others`, paired by seed. None: a pair has no ratio.

    The interval is the mean gain plus or minus two standard errors.
    """
    return _change(values, others, lambda count: 2 / sqrt(count))


def range_of_gain(values: Sequence[float], others: Sequence[float]) -> Change | None:
    """Return how far `values` are below `others`, as `gain`, with the range of a single pair.

    `low` to `high` contains the gain of one more pair in 90 % of cases, if the gains are normal:
    the mean plus or minus t * sd * sqrt(1 + 1/n), with Student's t for n - 1 degrees of freedom.
    """
    return _change(values, others, lambda n: _student_95(n - 1) * sqrt(1 + 1 / n))


def _change(
    values: Sequence[float], others: Sequence[float], width: Callable[[int], float]
) -> Change | None:
    """`width`: half the interval of so many gains, in standard deviations."""
    pairs = [1 - v / o for v, o in zip(values, others, strict=True) if o > 0]
    if not pairs or len(pairs) < len(values):
        return None
    mean = fmean(pairs)
    if len(pairs) < 2:
        return Change(mean)
    half = width(len(pairs)) * stdev(pairs)
    return Change(mean, mean - half, mean + half)


def _student_95(freedom: int) -> float:
    """Return the 95 % quantile of Student's t, within 0.01 from three degrees of freedom on
    (Cornish and Fisher's expansion around the normal quantile)."""
    z = 1.6449
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
