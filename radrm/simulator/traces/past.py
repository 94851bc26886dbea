"""A daemon's own past as a trace: each of its jobs as if alone on the server.

- Durations are corrected for the slow-down by neighbours: at each moment the model of
  `interference.model` gives an attempt's speed beside the others on its devices.
- Memory is the peak that was measured.
- SM activity is a job's own if it ran alone. Else it comes from a run of the same job
  alone, or from its estimate. Else it is *assumed*, and counted as such: a multiple of an
  equal part of the shared GPU's activity, or a fixed figure if that was not read.
- Dependencies (`--after`) and array limits are kept; a dependency counts with any outcome.
- Holds (a job comes when it was submitted), time lost to crashes of the server, and jobs
  without a GPU are not replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, quantiles
from typing import Any

from radrm.core.records import Attempt, Instant, Job
from radrm.core.words import Collocation, Outcome, Quantity
from radrm.interference.model import Demand, Load, running_speeds, share_weight
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.trace import MAX_GPUS, MAX_MIB, MAX_SECONDS

RECORDED = "recorded"
"""The name of the estimate that the daemon used at that time."""

_NO_IDEA = (0.3, 0.6, 0.9)
_PARTS = (1.0, 1.6, 2.5)
"""Demand of a job as a multiple of its equal part of the shared GPU's activity. 1 is the least
on average, since no job shows more than it asks for. A full GPU hides how much more it asks."""
_ENOUGH = 8
_SLOWEST = 1e-3
_START_UP_S = 30.0
"""An attempt puts no load on a GPU for this long, half its time at most, as in the model."""
_ENDS, _BEGINS, _COMPUTES = range(3)
_WORK = frozenset(
    {Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.PREEMPTED}
)
"""Outcomes of attempts whose time counts as work. The simulator makes its own `oom` attempts."""
_WEIGHT = share_weight(None, None)


@dataclass(frozen=True, slots=True)
class Past:
    """A recorded job and its attempts, oldest first."""

    job: Job
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """Jobs to simulate, by time, and facts about them for the user.

    - `left_out`: the number of jobs left out, by reason.
    - `assumed`: the number of jobs whose SM activity is assumed.
    - `shared`: the number of jobs that ran beside others; `slow_down`: the mean factor by
      which these were slower, in the model.
    - `jct_s`, `wait_s`: the recorded means of the jobs to simulate.
    """

    jobs: tuple[TraceJob, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    assumed: int = 0
    shared: int = 0
    slow_down: float = 1.0
    jct_s: float | None = None
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Assumption:
    """An assumption about unknown SM activity.

    It is `part` times an equal part of the shared GPU's activity, or `smact` (0..1) if that
    is unknown, too.
    """

    part: float
    smact: float


def assumptions(past: Sequence[Past]) -> tuple[Assumption, ...]:
    """Return a low, a middle and a high assumption; one is enough if nothing is unknown."""
    own = _own_activity(past)
    known = [smact for each in past if (smact := _known(each, own)) is not None]
    if len(known) == sum(bool(each.attempts) for each in past):
        return (Assumption(1.0, _NO_IDEA[1]),)
    levels = quantiles(known, n=4) if len(known) >= _ENOUGH else _NO_IDEA
    return tuple(Assumption(part, smact) for part, smact in zip(_PARTS, levels, strict=True))


def replayed(past: Sequence[Past], assumed: Assumption, now_s: float) -> Replayed:
    """Return the jobs of the past that can be simulated.

    `now_s` (epoch seconds) counts as the end of attempts that still run.
    """
    past = _with_corrected_dates(past)
    own = _own_activity(past)
    activity = [_known(each, own) for each in past]
    parts = _parts(past, now_s)
    found = [
        known if known is not None else _assumed(part, assumed)
        for known, part in zip(activity, parts, strict=True)
    ]
    alone_s, lived_s = _times(past, found, now_s)
    left_out: Counter[str] = Counter()
    taken = []
    for at, each in enumerate(past):
        reason = _reason_left_out(each, alone_s[at])
        if reason is None:
            taken.append(at)
        else:
            left_out[reason] += 1
    taken.sort(key=lambda at: (past[at].job.submitted.wall_s, at))
    line = {each.job.id: at + 1 for at, each in enumerate(past)}
    jobs = [replace(_job(past[at], found[at], alone_s[at], line), line=at + 1) for at in taken]
    shared = [at for at in taken if alone_s[at] < lived_s[at] * (1 - 1e-9)]
    spans = [_span(past[at]) for at in taken]
    return Replayed(
        jobs=_from_zero(jobs),
        left_out=dict(left_out),
        assumed=sum(activity[at] is None for at in taken),
        shared=len(shared),
        slow_down=fmean(lived_s[at] / alone_s[at] for at in shared) if shared else 1.0,
        jct_s=fmean(spans) if spans else None,
        wait_s=fmean(max(0.0, _span(past[at]) - _ran(past[at])) for at in taken) if taken else None,
    )


def _from_zero(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    begin_s = jobs[0].submit_s if jobs else 0.0
    return tuple(
        replace(
            job,
            submit_s=job.submit_s - begin_s,
            due_s=None if job.due_s is None else job.due_s - begin_s,
        )
        for job in jobs
    )


# ------------------------------------------------------------------ time


def _with_corrected_dates(past: Sequence[Past]) -> list[Past]:
    """Return the same records with the dates that a clock would show that was never set.

    Within a boot the last date is taken as right. Time since boot gives the others.
    """
    last: dict[str, Instant] = {}
    for each in past:
        for instant in _instants(each):
            if instant.boot is not None:
                last[instant.boot] = max(instant, last.get(instant.boot, instant), key=_boot_s)

    def right(instant: Instant | None) -> Any:
        if instant is None or instant.boot is None:
            return instant
        end = last[instant.boot]
        return replace(instant, wall_s=end.wall_s - (end.boot_s - instant.boot_s))

    def corrected(record: Any, *names: str) -> Any:
        return replace(record, **{name: right(getattr(record, name)) for name in names})

    return [
        Past(
            corrected(each.job, "submitted", "started", "ended"),
            tuple(corrected(attempt, "started", "ended") for attempt in each.attempts),
        )
        for each in past
    ]


def _instants(past: Past) -> Iterator[Instant]:
    job = past.job
    found = [job.submitted, job.started, job.ended]
    found += [at for attempt in past.attempts for at in (attempt.started, attempt.ended)]
    return (instant for instant in found if instant is not None)


def _boot_s(instant: Instant) -> float:
    return instant.boot_s


# ------------------------------------------------------------------ SM activity


def _same_job_key(job: Job) -> tuple[str, str]:
    """Return a key that is equal for runs of the same job."""
    return job.spec.user, job.fingerprint or f"name {job.spec.name}"


def _own_activity(past: Sequence[Past]) -> dict[tuple[str, str], float]:
    """Return the mean SM activity of each job that ran alone."""
    seen: dict[tuple[str, str], list[float]] = {}
    for each in past:
        for attempt in each.attempts:
            alone = _alone(attempt)
            if alone is not None:
                seen.setdefault(_same_job_key(each.job), []).append(alone)
    return {key: fmean(values) for key, values in seen.items()}


def _alone(attempt: Attempt) -> float | None:
    if attempt.outcome is Outcome.OOM or any(u.shared for u in attempt.used.values()):
        return None
    mean = attempt.smact_mean
    return None if mean is None else min(1.0, max(0.0, mean))


def _known(past: Past, own: Mapping[tuple[str, str], float]) -> float | None:
    themselves = [s for a in past.attempts if (s := _alone(a)) is not None]
    if themselves:
        return fmean(themselves)
    if (same := own.get(_same_job_key(past.job))) is not None:
        return same
    estimate = past.job.estimate(Quantity.SMACT)
    return min(1.0, max(0.0, estimate.value)) if estimate is not None else None


def _assumed(part: float | None, assumed: Assumption) -> float:
    return assumed.smact if part is None else min(1.0, part * assumed.part)


def _parts(past: Sequence[Past], now_s: float) -> list[float | None]:
    """Return for each job an equal part of its shared GPUs' activity. None: it was not read."""
    lives = [
        (at, attempt, span)
        for at, each in enumerate(past)
        for attempt in each.attempts
        if (span := _life(attempt, now_s)) is not None
    ]
    changes = sorted(
        (moment, -1 if ends else 1, which, device)
        for which, (_, attempt, span) in enumerate(lives)
        for ends, moment in enumerate(span)
        for device in attempt.placement.devices
    )
    here: Counter[str] = Counter()
    since: dict[str, float] = {}
    total: dict[str, float] = {}  # of each device: the number of attempts on it, over time
    begun: dict[tuple[int, str], float] = {}
    found: dict[int, list[float]] = {}
    for now, change, which, device in changes:
        total[device] = total.get(device, 0.0) + here[device] * (now - since.get(device, now))
        since[device] = now
        here[device] += change
        if change > 0:
            begun[which, device] = total[device]
            continue
        at, attempt, (first, last) = lives[which]
        sharers = (total[device] - begun[which, device]) / (last - first)
        usage = attempt.used.get(device)
        seen = usage.smact_mean if usage else None
        if seen is not None and attempt.outcome is not Outcome.OOM:
            found.setdefault(at, []).append(min(1.0, max(0.0, seen)) / max(1.0, sharers))
    return [fmean(found[at]) if at in found else None for at in range(len(past))]


# ------------------------------------------------------------------ durations


def _times(
    past: Sequence[Past], activity: Sequence[float], now_s: float
) -> tuple[list[float], list[float]]:
    """Return for each job the seconds that its work would take alone, and did take."""
    alone_s, lived_s = [0.0] * len(past), [0.0] * len(past)
    loads: dict[int, Load] = {}
    whose: dict[int, tuple[int, bool]] = {}
    changes: list[tuple[float, int, int]] = []
    for at, each in enumerate(past):
        for attempt in each.attempts:
            span = _life(attempt, now_s)
            devices = attempt.placement.devices
            if span is None or not devices:
                continue
            key = len(whose)
            mps = attempt.placement.collocation is Collocation.MPS
            loads[key] = Load(Demand(activity[at], _WEIGHT), devices, mps)
            whose[key] = at, attempt.outcome in _WORK
            computes_s = span[0] + min(_START_UP_S, (span[1] - span[0]) / 2)
            changes += [(span[0], _BEGINS, key), (computes_s, _COMPUTES, key)]
            changes.append((span[1], _ENDS, key))
    changes.sort()
    here: dict[int, Load] = {}
    starting: dict[int, float] = {}
    speed: dict[int, float] = {}
    before_s = 0.0
    for now, change, key in changes:
        for other, at_speed in (*speed.items(), *starting.items()):
            at, works = whose[other]
            if works:
                alone_s[at] += at_speed * (now - before_s)
                lived_s[at] += now - before_s
        before_s = now
        if change == _BEGINS:
            starting[key] = 1.0
            continue
        starting.pop(key, None)
        if change == _COMPUTES:
            here[key] = loads[key]
        else:
            here.pop(key, None)
        speed = {k: max(_SLOWEST, v) for k, v in running_speeds(here).items()}
    return alone_s, lived_s


def _life(attempt: Attempt, now_s: float) -> tuple[float, float] | None:
    if attempt.started is None:
        return None
    end_s = now_s if attempt.ended is None else attempt.ended.wall_s
    # A clock that was set back gives no negative life.
    return (attempt.started.wall_s, end_s) if end_s > attempt.started.wall_s else None


def _ran(past: Past) -> float:
    spans = [_life(attempt, 0.0) for attempt in past.attempts]
    return sum(last - first for first, last in (s for s in spans if s is not None))


def _span(past: Past) -> float:
    job = past.job
    return max(0.0, job.ended.wall_s - job.submitted.wall_s) if job.ended is not None else 0.0


# ------------------------------------------------------------------ jobs


def _reason_left_out(past: Past, alone_s: float) -> str | None:
    if not past.job.state.final or past.job.ended is None:
        return "not ended yet"
    if past.job.spec.gpus == 0:
        return "without a GPU"
    if alone_s <= 0:
        return "never ran"
    if _peak_mib(past) is None:
        return "no memory was seen"
    if alone_s > MAX_SECONDS or _gpus(past) > MAX_GPUS:
        return "beyond what a trace may hold"
    return None


def _peak_mib(past: Past) -> float | None:
    peaks = [a.peak_mib for a in past.attempts if a.peak_mib]
    return min(float(max(peaks)), MAX_MIB) if peaks else None


def _gpus(past: Past) -> int:
    worked = [a for a in past.attempts if a.outcome in _WORK and a.placement.devices]
    return len(worked[-1].placement.devices) if worked else past.job.spec.gpus


def _job(past: Past, smact: float, alone_s: float, line: Mapping[int, int]) -> TraceJob:
    spec, estimate = past.job.spec, past.job.estimate(Quantity.MEMORY)
    array, followed = past.job.array, past.job.followed
    peak_mib = _peak_mib(past)
    assert peak_mib is not None
    return TraceJob(
        submit_s=past.job.submitted.wall_s,
        name=spec.name,
        gpus=_gpus(past),
        duration_s=alone_s,
        memory_mib=peak_mib,
        smact=smact,
        estimates={} if estimate is None or estimate.upper <= 0 else {RECORDED: estimate.upper},
        declared=past.job.declared,
        user=spec.user,
        priority=spec.priority,
        due_s=spec.due_s,
        weight=spec.weight,
        after=tuple(line[d.job_id] for d in followed if not d.array and d.job_id in line),
        after_arrays=tuple(str(d.job_id) for d in followed if d.array),
        array=None if array is None else str(array.array_id),
        at_once=None if array is None else array.at_once,
    )
