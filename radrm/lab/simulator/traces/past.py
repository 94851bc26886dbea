"""A daemon's own past as a trace: each of its jobs as if alone on the server.

- SM activity and durations are those that the jobs would have alone. What the record
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
from math import exp, hypot, log, sqrt
from random import Random
from statistics import fmean, stdev
from typing import Any

from msgspec import Struct, field

from radrm.core.records import MEASURED, Attempt, Instant, Job
from radrm.core.words import Collocation, Outcome, Quantity
from radrm.interference.model import Demand, share_weight
from radrm.lab.simulator.traces.draw import TYPICAL, Typical
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.solo import Run, Seen, SoloFit, Told, cut, solo_seconds
from radrm.lab.simulator.traces.trace import MAX_GPUS, MAX_MIB, MAX_SECONDS, from_zero
from radrm.structs import replace

# ------------------------------------------------------------------
# What the jobs of a past would be alone: SM activity, and the time that their work takes.
#
# Theory of operation
# -------------------
# - SM activity is solved for from the readings of all devices, those that jobs shared too
#   (`solo`). Where readings do not determine it, it differs from draw to draw.
# - How neighbours divide a full GPU depends on their kinds and batch sizes, which nobody records.
#   Each draw guesses them, from memory and SM activity, by the table of typical jobs.
# - With both, the model gives an attempt's speed at each moment, and so its time alone.


_MEMORY_SPREAD, _SMACT_SPREAD = 0.6, 0.15
"""How far jobs are from a typical kind: in the logarithm of memory, and in SM activity."""
_TOLD_SD = 0.05
_ALONE_SD, _ONE_READING_SD, _LEAST_READINGS = 0.03, 0.2, 10
"""The error of the mean of some readings for the whole run, of one reading, and how many count."""
_SLOWEST = 1e-3
_START_UP_S = 30.0
"""An attempt puts no load on a GPU for this long, half its time at most, as in the model."""
TO_90 = 1.645
"""Half the width of the range of 90 % of normal errors, in standard deviations."""
WORK = frozenset(
    {Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.PREEMPTED}
)
"""Outcomes of attempts whose time counts as work. The simulator makes its own `oom` attempts."""


class Past(Struct, frozen=True):
    """A recorded job and its attempts, oldest first."""

    job: Job
    attempts: tuple[Attempt, ...] = ()


class Kind(Struct, frozen=True):
    """What decides how much of a full GPU a job gets; None: unknown."""

    family: str | None = None
    batch_size: int | None = None

    @property
    def weight(self) -> float:
        return share_weight(self.family, self.batch_size)


_ANY = (*dict.fromkeys(Kind(each.family, each.batch_size) for each in TYPICAL), Kind("tiny"))


def _likeness(kind: Typical, mib: float, smact: float) -> float:
    """Return how well a job of this memory and SM activity is like a typical kind."""
    memory = log(max(mib, 1.0) / kind.memory_mib) / _MEMORY_SPREAD
    return kind.share * exp(-(memory**2 + ((smact - kind.smact) / _SMACT_SPREAD) ** 2) / 2) + 1e-9


class Solo(Struct, frozen=True):
    """For each job of the past: its SM activity alone, the seconds that its work takes alone, and
    its kind."""

    smact: Sequence[float]
    alone_s: Sequence[float]
    what: Sequence[Kind]


class Solved(Struct, frozen=True):
    best: Solo
    draws: tuple[Solo, ...]


class SharedPast:
    """All attempts on GPUs, as runs on one clock."""

    def __init__(self, past: Sequence[Past], now_s: float) -> None:
        keys: dict[tuple[str, str], int] = {}
        self.same = [keys.setdefault(_same_job_key(each.job), len(keys)) for each in past]
        """Equal for runs of the same job."""
        self.lived_s = [0.0] * len(past)
        self._job: list[int] = []
        self._works: list[bool] = []
        self._alone: set[int] = set()
        told: dict[int, list[Told]] = {}
        seen: list[Seen] = []
        runs: list[Run] = []
        for at, each in enumerate(past):
            estimate = each.job.estimate(Quantity.SMACT)
            if estimate is not None:
                sd = max(_TOLD_SD, (estimate.upper - estimate.value) / TO_90)
                told[self.same[at]] = [Told(_share(estimate.value), sd)]
            for attempt in each.attempts:
                span, devices = life(attempt, now_s), attempt.placement.devices
                if span is None or not devices:
                    continue
                begin_s, end_s = span
                computes_s = begin_s + min(_START_UP_S, (end_s - begin_s) / 2)
                mps = attempt.placement.collocation is Collocation.MPS
                parts = _alone_parts(attempt)
                if parts or _alone(attempt):
                    self._alone.add(self.same[at])
                told.setdefault(self.same[at], []).extend(parts)
                seen += [
                    Seen(len(runs), device, _share(usage.smact_mean))
                    for device, usage in attempt.used.items()
                    if usage.smact_mean is not None
                ]
                runs.append(Run(devices, mps, begin_s, computes_s, end_s))
                self._job.append(at)
                self._works.append(attempt.outcome in WORK)
                if self._works[-1]:
                    self.lived_s[at] += end_s - begin_s
        self._mib = [0.0] * len(keys)
        for at, each in enumerate(past):
            self._mib[self.same[at]] = max(self._mib[self.same[at]], peak_mib(each) or 0.0)
        self._told = frozenset(job for job, figures in told.items() if figures)
        self._periods = cut(runs)
        of_run = [self.same[at] for at in self._job]
        self._fit = SoloFit(self._periods, of_run, seen, told, len(keys))

    def source(self, at: int) -> str:
        """Return where the SM activity of a job is known from: alone (a run of it alone), told (its
        estimate), solved (readings of shared devices) or guessed (nothing)."""
        job = self.same[at]
        if job in self._alone:
            return "alone"
        if job in self._told:
            return "told"
        return "solved" if job in self._fit.informed else "guessed"

    def solve(self, draws: int, seed: int) -> Solved:
        """Return the most likely figures, and so many draws of what is as likely."""
        rng = Random(f"past {seed}")
        unknown = [Kind()] * len(self._mib)
        best = self._fit.best([each.weight for each in unknown])
        found = []
        for _ in range(draws):
            kinds = self._guess(best, rng)
            demands = self._fit.draw([each.weight for each in kinds], rng)
            found.append(self._solo(demands, kinds))
        return Solved(self._solo(best, unknown), tuple(found))

    def _guess(self, smact: Sequence[float], rng: Random) -> list[Kind]:
        """Return guesses of what the jobs are, from their memory and SM activity.

        The part of the jobs that is like the typical ones differs from draw to draw; the
        others can be anything.
        """
        part = rng.random()
        found = []
        for mib, activity in zip(self._mib, smact, strict=True):
            if rng.random() >= part:
                found.append(rng.choice(_ANY))
                continue
            (kind,) = rng.choices(TYPICAL, [_likeness(each, mib, activity) for each in TYPICAL])
            found.append(Kind(kind.family, kind.batch_size))
        return found

    def _solo(self, smact: Sequence[float], kinds: Sequence[Kind]) -> Solo:
        alone_s = [0.0] * len(self.lived_s)
        demands = [
            Demand(smact[job], kinds[job].weight) for job in map(self.same.__getitem__, self._job)
        ]
        seconds = solo_seconds(self._periods, demands, _SLOWEST)
        for at, works, run_s in zip(self._job, self._works, seconds, strict=True):
            if works:
                alone_s[at] += run_s
        return Solo(
            [smact[job] for job in self.same],
            alone_s,
            [kinds[job] for job in self.same],
        )


def _same_job_key(job: Job) -> tuple[str, str]:
    """Return a key that is equal for runs of the same job."""
    return job.spec.user, job.fingerprint or f"name {job.spec.name}"


def _alone(attempt: Attempt) -> bool:
    """Return whether the attempt's readings show this job alone."""
    if attempt.outcome is Outcome.OOM or any(u.shared for u in attempt.used.values()):
        return False
    return attempt.smact_mean is not None


def _alone_parts(attempt: Attempt) -> list[Told]:
    """Return what an attempt on one shared device has shown while nobody was beside it."""
    if len(attempt.placement.devices) > 1 or not any(u.shared for u in attempt.used.values()):
        return []
    return [
        Told(_share(usage.alone_smact), hypot(_ALONE_SD, _ONE_READING_SD / sqrt(usage.alone_count)))
        for usage in attempt.used.values()
        if usage.alone_smact is not None and usage.alone_count >= _LEAST_READINGS
    ]


def _share(smact: float) -> float:
    return min(1.0, max(0.0, smact))


def life(attempt: Attempt, now_s: float) -> tuple[float, float] | None:
    """Return the begin and end of an attempt (epoch seconds). None: it did not run."""
    if attempt.started is None:
        return None
    end_s = now_s if attempt.ended is None else attempt.ended.wall_s
    # A clock that was set back gives no negative life.
    return (attempt.started.wall_s, end_s) if end_s > attempt.started.wall_s else None


def peak_mib(past: Past) -> float | None:
    """Return the highest memory of a job on any one GPU. None: none was seen."""
    peaks = [a.peak_mib for a in past.attempts if a.peak_mib]
    return min(float(max(peaks)), MAX_MIB) if peaks else None


RECORDED = "recorded"
"""The name of the estimate that the daemon used at that time."""


class Range(Struct, frozen=True):
    """The best value, and about the limits of 90 % of the draws."""

    best: float
    low: float
    high: float


class Replayed(Struct, frozen=True):
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
    jobs = from_zero([_job(past[at], line) for at in taken])
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
