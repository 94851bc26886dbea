"""What the jobs of a past would be alone: SM activity, and the time that their work takes.

Theory of operation
-------------------
- SM activity is solved for from the readings of all devices, those that jobs shared too
  (`interference.solo`). Where readings do not determine it, it differs from draw to draw.
- How neighbours divide a full GPU depends on their kinds and batch sizes, which nobody records.
  Each draw guesses them, from memory and SM activity, by the table of typical jobs (`fill`).
- With both, the model gives an attempt's speed at each moment, and so its time alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log, sqrt
from random import Random

from radrm.core.records import Attempt, Job
from radrm.core.words import Collocation, Outcome, Quantity
from radrm.interference.model import Demand, share_weight
from radrm.interference.periods import Run, cut, solo_seconds
from radrm.interference.solo import Seen, SoloFit, Told
from radrm.simulator.traces.fill import TYPICAL, Typical
from radrm.simulator.traces.trace import MAX_MIB

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


@dataclass(frozen=True, slots=True)
class Past:
    """A recorded job and its attempts, oldest first."""

    job: Job
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
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


@dataclass(frozen=True, slots=True)
class Solo:
    """For each job of the past: its SM activity alone, the seconds that its work takes alone, and
    its kind."""

    smact: Sequence[float]
    alone_s: Sequence[float]
    what: Sequence[Kind]


@dataclass(frozen=True, slots=True)
class Solved:
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
