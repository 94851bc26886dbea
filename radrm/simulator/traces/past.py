"""A daemon's own past as a trace: each of its jobs as if alone on the server.

- SM activity and durations are those that the jobs would have alone (`alone`). What the record
  does not determine differs from draw to draw.
- Memory is the peak that was measured.
- Rules know of a job's SM activity and duration what was predicted before it ran.
- Dependencies (`--after`) and array limits are kept; a dependency counts with any outcome.
- Holds (a job comes when it was submitted), time lost to crashes of the server, and jobs
  without a GPU are not replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any

from radrm.core.records import MEASURED, Instant
from radrm.core.words import Quantity
from radrm.simulator.traces.alone import TO_90, WORK, Past, SharedPast, Solo, Solved, life, peak_mib
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.trace import MAX_GPUS, MAX_SECONDS

RECORDED = "recorded"
"""The name of the estimate that the daemon used at that time."""


@dataclass(frozen=True, slots=True)
class Range:
    """The best value, and about the limits of 90 % of the draws."""

    best: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """Jobs to simulate, by time, and facts about them for the user.

    - `jobs`: the most likely; `draws`: the same jobs with other SM activity, durations and
      batch sizes that explain the readings as well.
    - `left_out`: the number of jobs left out, by reason.
    - `alone`, `told`, `solved`, `guessed`: the number of jobs whose SM activity comes from a
      run of the same job alone; from its estimate; from readings of shared GPUs; from nothing.
    - `unsure`: of the jobs that were never alone, half the mean width of the 90 % range of SM
      activity; None without such jobs.
    - `shared`: the number of jobs that ran beside others; `slow_down`: the mean factor by
      which these were slower, in the model.
    - `jct_s`, `wait_s`: the recorded means of the jobs to simulate.
    """

    jobs: tuple[TraceJob, ...]
    draws: tuple[tuple[TraceJob, ...], ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    alone: int = 0
    told: int = 0
    solved: int = 0
    guessed: int = 0
    unsure: float | None = None
    shared: int = 0
    slow_down: Range = Range(1.0, 1.0, 1.0)
    jct_s: float | None = None
    wait_s: float | None = None

    @property
    def unknown(self) -> int:
        """The number of jobs whose SM activity is not known from a run alone or an estimate."""
        return self.solved + self.guessed


def replayed(past: Sequence[Past], now_s: float, draws: int = 0, seed: int = 0) -> Replayed:
    """Return the jobs of the past that can be simulated, with so many draws.

    `now_s` (epoch seconds) counts as the end of attempts that still run. The same arguments give
    the same draws.
    """
    past = _with_corrected_dates(past)
    history = SharedPast(past, now_s)
    solved = history.solve(draws, seed)
    left_out: Counter[str] = Counter()
    taken = []
    for at, each in enumerate(past):
        reason = _reason_left_out(each, solved.best.alone_s[at])
        if reason is None:
            taken.append(at)
        else:
            left_out[reason] += 1
    taken.sort(key=lambda at: (past[at].job.submitted.wall_s, at))
    line = {each.job.id: at + 1 for at, each in enumerate(past)}
    jobs = _from_zero([_job(past[at], line) for at in taken])
    lived_s, best_s = history.lived_s, solved.best.alone_s
    shared = [at for at in taken if best_s[at] < lived_s[at] * (1 - 1e-9)]
    spans = [_span(past[at]) for at in taken]
    sources = Counter(history.source(at) for at in taken)
    return Replayed(
        jobs=_at_work(jobs, taken, solved.best),
        draws=tuple(_at_work(jobs, taken, each) for each in solved.draws),
        left_out=dict(left_out),
        alone=sources["alone"],
        told=sources["told"],
        solved=sources["solved"],
        guessed=sources["guessed"],
        unsure=_unsure([at for at in taken if history.source(at) != "alone"], solved.draws),
        shared=len(shared),
        slow_down=_slow_down(shared, lived_s, solved),
        jct_s=fmean(spans) if spans else None,
        wait_s=fmean(max(0.0, _span(past[at]) - _ran(past[at])) for at in taken) if taken else None,
    )


def _at_work(jobs: Sequence[TraceJob], taken: Sequence[int], solo: Solo) -> tuple[TraceJob, ...]:
    """Return the jobs with these figures; `taken` has their positions in the past."""
    return tuple(
        replace(
            job,
            smact=solo.smact[at],
            duration_s=solo.alone_s[at],
            family=solo.what[at].family,
            batch_size=solo.what[at].batch_size,
        )
        for job, at in zip(jobs, taken, strict=True)
    )


def _unsure(taken: Sequence[int], draws: Sequence[Solo]) -> float | None:
    if not taken or len(draws) < 2:
        return None
    return TO_90 * fmean(stdev([draw.smact[at] for draw in draws]) for at in taken)


def _slow_down(shared: Sequence[int], lived_s: Sequence[float], solved: Solved) -> Range:
    def mean(solo: Solo) -> float:
        return fmean(lived_s[at] / solo.alone_s[at] for at in shared) if shared else 1.0

    best = mean(solved.best)
    draws = [mean(each) for each in solved.draws]
    if len(draws) < 2:
        return Range(best, best, best)
    half = TO_90 * stdev(draws)
    return Range(best, max(1.0, fmean(draws) - half), fmean(draws) + half)


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


def _ran(past: Past) -> float:
    spans = [life(attempt, 0.0) for attempt in past.attempts]
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
    if peak_mib(past) is None:
        return "no memory was seen"
    if alone_s > MAX_SECONDS or _gpus(past) > MAX_GPUS:
        return "beyond what a trace may hold"
    return None


def _gpus(past: Past) -> int:
    worked = [a for a in past.attempts if a.outcome in WORK and a.placement.devices]
    return len(worked[-1].placement.devices) if worked else past.job.spec.gpus


def _job(past: Past, line: Mapping[int, int]) -> TraceJob:
    """Return the job, without what differs from draw to draw."""
    spec, estimate = past.job.spec, past.job.estimate(Quantity.MEMORY)
    array, followed = past.job.array, past.job.followed
    mib = peak_mib(past)
    assert mib is not None
    return TraceJob(
        # Before `--begin` it could not start.
        submit_s=max(past.job.submitted.wall_s, spec.begin_s or 0.0),
        name=spec.name,
        gpus=_gpus(past),
        duration_s=0.0,
        memory_mib=mib,
        smact=0.0,
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
        line=line[past.job.id],
        # What an attempt of the job itself has shown was not known before.
        predicted=tuple(
            each
            for each in past.job.estimates
            if each.quantity is not Quantity.MEMORY and each.source != MEASURED
        ),
    )
