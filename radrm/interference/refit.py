"""The model's ceiling, fitted to a site's own readings.

Theory of operation
-------------------
The ceiling limits the SM activity of shared devices. For each value of it `solo` finds the demands
that explain all readings best; the value with the least cost is the fitted one. Readings of one
device do not tell the other constants: the knee changes little, and shares depend on batch sizes,
which nobody records. Runs on several devices hold their neighbours back, so readings beside them
do not count.

A fit always explains its own readings better. So the shared readings are halved; each half is
predicted with the demands and the ceiling that the other half gives, and with the shipped ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from radrm.interference.model import CEILING, total_activity
from radrm.interference.periods import Periods
from radrm.interference.solo import Seen, SoloFit, Told

LEAST_RUNS = 50
"""Fewer readings of shared devices decide nothing."""
TOLERANCE = 0.045
"""The error of a fit. With so many readings and more, simulated histories with ceilings of 0.80,
0.944 and 0.99 were at most 0.041 off (`python -m benchmarks.simulation.refits`)."""
LOWEST, HIGHEST = 0.5, 1.0
"""The limits of a ceiling."""
_NARROW = 0.005
_GOLDEN = (sqrt(5) - 1) / 2
_SURE = 1.645
"""The standard errors by which a fitted ceiling must predict better: 95 % of normal errors."""


@dataclass(frozen=True, slots=True)
class Refit:
    """What the readings of shared devices say of the ceiling.

    - `runs`: the number of these readings.
    - `ceiling`: the fitted one; None: there are fewer than `LEAST_RUNS`.
    - `shipped_error`, `error`: root mean square errors of predicted SM activity in the held-out
      halves, with the shipped and with the fitted ceiling.
    - `better`: the fitted one predicts better, by more than the noise, and differs from the
      shipped one by more than `TOLERANCE`.
    """

    runs: int
    ceiling: float | None = None
    shipped_error: float = 0.0
    error: float = 0.0
    better: bool = False


def refit(
    periods: Periods,
    job_of: Sequence[int],
    seen: Sequence[Seen],
    told: Mapping[int, Sequence[Told]],
    jobs: int,
) -> Refit:
    """Return the ceiling that explains these readings best. For the arguments see `SoloFit`."""

    def parts_of(each: Seen) -> tuple[int, ...]:
        return periods.within.get((each.run, each.device), ())

    clean = [
        each for each in seen if not any(periods.parts[place].joint for place in parts_of(each))
    ]
    shared = [
        each
        for each in clean
        if any(len(periods.parts[place].runs) > 1 for place in parts_of(each))
    ]
    beside = set(shared)
    alone = [each for each in clean if each not in beside]
    if len(shared) < LEAST_RUNS:
        return Refit(len(shared))

    def fit_of(readings: Sequence[Seen]) -> SoloFit:
        return SoloFit(periods, job_of, [*alone, *readings], told, jobs)

    def error(each: Seen, demands: Sequence[float], ceiling: float) -> float:
        work = 0.0
        for part in map(periods.parts.__getitem__, parts_of(each)):
            total = sum(demands[job_of[run]] for run in part.runs)
            shown = total_activity(total, len(part.runs), mps=part.mps, ceiling=ceiling)
            work += part.seconds * shown
        run = periods.runs[each.run]
        return work / (run.end_s - run.begin_s) - each.smact

    before: list[float] = []
    after: list[float] = []
    halves = shared[::2], shared[1::2]
    for half, other in (halves, halves[::-1]):
        fit = fit_of(half)
        for ceiling, squares in ((CEILING, before), (_least(fit), after)):
            _, demands = fit.with_ceiling(ceiling)
            squares += [error(each, demands, ceiling) ** 2 for each in other]
    gains = [old - new for old, new in zip(before, after, strict=True)]
    found = _least(fit_of(shared))
    sure = fmean(gains) > _SURE * stdev(gains) / sqrt(len(gains))
    return Refit(
        len(shared),
        found,
        sqrt(fmean(before)),
        sqrt(fmean(after)),
        sure and abs(found - CEILING) > TOLERANCE,
    )


def _least(fit: SoloFit) -> float:
    """Return the ceiling of least cost, by golden-section search."""

    def cost(ceiling: float) -> float:
        return fit.with_ceiling(ceiling)[0]

    low, high = LOWEST, HIGHEST
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = cost(left), cost(right)
    while high - low > _NARROW:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = cost(right)
    return (low + high) / 2
