"""A daemon's own past as a trace: what its jobs would have been, each alone on the server.

Durations are corrected for the slow-down by neighbours: over each attempt's life the model
of `core.physics` says how fast it went beside those who shared its devices then. Memory is
the peak that was seen. A job's SM activity is its own only where it was alone; else that of
a run of the same thing alone, or its estimate; else it is *assumed*, and counted: its part
of what the GPU showed that it shared, or anything where not even that was read.

What a job had to wait for (`--after`) it waits for again, whatever became of that, and arrays
keep their limits. What is not replayed: holds (a job comes when it was submitted), time lost to
crashes of the server, and jobs without a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, quantiles
from typing import Any

from radrm.core.physics import Demand, Load, running_speeds, share_weight
from radrm.core.records import Attempt, Instant, Job
from radrm.core.words import Collocation, Outcome, Quantity
from radrm.simulator.job import TraceJob
from radrm.simulator.trace import MAX_GPUS, MAX_MIB, MAX_SECONDS

RECORDED = "recorded"
"""The estimator that says what the daemon was told then."""

_NO_IDEA = (0.3, 0.6, 0.9)
_PARTS = (1.0, 1.6, 2.5)
"""A sharer's demand beside its equal part of what the GPU showed: the least, on the mean,
for nobody shows more than it asks; how much more it asked for a full GPU does not tell."""
_ENOUGH = 8
_SLOWEST = 1e-3
_START_UP_S = 30.0
"""So long an attempt loads no GPU, as in the model (half its time at most)."""
_ENDS, _BEGINS, _COMPUTES = range(3)
_WORK = frozenset(
    {Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.PREEMPTED}
)
"""Outcomes of attempts whose time was work: the simulator makes its own out-of-memory deaths."""
_WEIGHT = share_weight(None, None)


@dataclass(frozen=True, slots=True)
class Past:
    """A job that was, and the attempts that were really made, oldest first."""

    job: Job
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """Jobs to simulate, by time, and what people should know of them.

    `left_out`: how many jobs, by reason. `assumed`: so many jobs' SM activity is unknown.
    `shared`: so many were beside others; `slow_down`: the mean factor by which those were
    slower, in the model. `jct_s`, `wait_s`: as recorded, means of the jobs that are here.
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
    """What unknown SM activity may be: so many times an equal part of what a shared GPU
    showed; `smact` (0..1) where that is unknown, too."""

    part: float
    smact: float


def assumptions(past: Sequence[Past]) -> tuple[Assumption, ...]:
    """Low, middle and high; the middle alone where nothing is unknown."""
    own = _own_activity(past)
    known = [smact for each in past if (smact := _known(each, own)) is not None]
    if len(known) == sum(bool(each.attempts) for each in past):
        return (Assumption(1.0, _NO_IDEA[1]),)
    levels = quantiles(known, n=4) if len(known) >= _ENOUGH else _NO_IDEA
    return tuple(Assumption(part, smact) for part, smact in zip(_PARTS, levels, strict=True))


def replayed(past: Sequence[Past], assumed: Assumption, now_s: float) -> Replayed:
    """The jobs of the past that can be simulated. `now_s` (epoch seconds) ends what goes on."""
    past = _as_if_never_set(past)
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
        reason = _why_not(each, alone_s[at])
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


def _as_if_never_set(past: Sequence[Past]) -> list[Past]:
    """The same with the dates that a clock would have shown that nobody had set: within one
    boot the last date holds, and time since boot says what lies before it."""
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

    def told(record: Any, *names: str) -> Any:
        return replace(record, **{name: right(getattr(record, name)) for name in names})

    return [
        Past(
            told(each.job, "submitted", "started", "ended"),
            tuple(told(attempt, "started", "ended") for attempt in each.attempts),
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


def _thing(job: Job) -> tuple[str, str]:
    """What runs of the same thing have in common."""
    return job.spec.user, job.fingerprint or f"name {job.spec.name}"


def _own_activity(past: Sequence[Past]) -> dict[tuple[str, str], float]:
    """The mean SM activity of things that ran alone."""
    seen: dict[tuple[str, str], list[float]] = {}
    for each in past:
        for attempt in each.attempts:
            alone = _alone(attempt)
            if alone is not None:
                seen.setdefault(_thing(each.job), []).append(alone)
    return {thing: fmean(values) for thing, values in seen.items()}


def _alone(attempt: Attempt) -> float | None:
    if attempt.outcome is Outcome.OOM or any(u.shared for u in attempt.used.values()):
        return None
    mean = attempt.smact_mean
    return None if mean is None else min(1.0, max(0.0, mean))


def _known(past: Past, own: Mapping[tuple[str, str], float]) -> float | None:
    themselves = [s for a in past.attempts if (s := _alone(a)) is not None]
    if themselves:
        return fmean(themselves)
    if (same := own.get(_thing(past.job))) is not None:
        return same
    told = past.job.estimate(Quantity.SMACT)
    return min(1.0, max(0.0, told.value)) if told is not None else None


def _assumed(part: float | None, assumed: Assumption) -> float:
    return assumed.smact if part is None else min(1.0, part * assumed.part)


def _parts(past: Sequence[Past], now_s: float) -> list[float | None]:
    """For each job an equal part of the activity of the GPUs that it shared; None: not read."""
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
    """For each job the seconds that its work would have taken alone, and did take."""
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


def _why_not(past: Past, alone_s: float) -> str | None:
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
    spec, told = past.job.spec, past.job.estimate(Quantity.MEMORY)
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
        estimates={} if told is None or told.upper <= 0 else {RECORDED: told.upper},
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
