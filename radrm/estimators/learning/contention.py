"""What an attempt would have shown alone: its SM activity, and its time.

Theory of operation
-------------------
An attempt that shared its GPUs took longer, and their SM activity was that of all jobs there.
Its record (`Usage.beside`) divides the shared time by the demands of the neighbours, as they were
known then. The model of interference gives the activity of a shared GPU from the demands of
its jobs, and the speed of each job.

- SM activity: the readings while the attempt was alone, if there are enough. Else the demand for
  which the model gives the measured activity of the shared GPU, over all parts together. The
  activity grows with the demand, so bisection finds it. Near the ceiling of a GPU many demands
  give almost the same activity; then the result is the predicted demand within that range, or
  the middle of the range.
- Time alone: each part times the speed that the model gives for it. Time without a part was
  alone.

Neighbours of unknown demand count as like the attempt itself. Start-up counts as computing. The
parts of an attempt's GPUs are not aligned in time, so their mean speeds are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from radrm.core.records import Attempt, Beside
from radrm.core.words import Collocation
from radrm.interference.model import Demand, activity, joint_speed, speeds

LEAST_ALONE = 30
"""Readings of a GPU (one a second) that show the SM activity of a job alone."""
LEAST_DEMAND = 0.01
READING_ERROR = 0.03
"""A demand counts as possible if the model's activity is this close to the measured one. An
assumption."""
_HALVINGS = 12


@dataclass(frozen=True, slots=True)
class Alone:
    """An attempt as if alone on its GPUs. None: unknown.

    `smact` is its SM activity (0..1) and `smact_most` the largest that fits the readings.
    `measured`: it was alone for some time, and `smact` is from then. `seconds` is the time that
    its work takes alone.
    """

    smact: float | None = None
    smact_most: float | None = None
    measured: bool = False
    seconds: float | None = None


def alone(attempt: Attempt, predicted: float | None, least_alone: int = LEAST_ALONE) -> Alone:
    """Return what an ended attempt shows of its job alone.

    `predicted` is the SM activity (0..1) that was predicted. `least_alone`: see `LEAST_ALONE`.
    """
    used = attempt.used.values()
    mps = attempt.placement.collocation is Collocation.MPS
    readings = sum(usage.alone_count for usage in used)
    own = attempt.alone_smact
    if not any(usage.shared for usage in used):
        own = attempt.smact_mean if own is None else own  # too short to have started up
        found = Alone(own, own, own is not None)
    elif own is not None and readings >= least_alone * len(used):
        found = Alone(own, own, True)
    else:
        parts = [p for usage in used for p in usage.beside if p.smact is not None and p.count]
        found = demand_beside(parts, predicted if own is None else own, mps)
    demand = predicted if found.smact is None else found.smact
    seconds = _seconds_alone(attempt, demand, mps)
    return Alone(found.smact, found.smact_most, found.measured, seconds)


def demand_beside(parts: Sequence[Beside], predicted: float | None, mps: bool) -> Alone:
    """Return the SM activity of a job from shared time. `parts` have readings."""
    total_s = sum(part.seconds for part in parts)
    if total_s <= 0:
        return Alone()
    seen = sum((part.smact or 0.0) * part.seconds for part in parts) / total_s

    def shown(demand: float) -> float:
        return sum(_activity(demand, part, mps) * part.seconds for part in parts) / total_s

    low = _largest(lambda demand: shown(demand) <= seen - READING_ERROR)
    high = _largest(lambda demand: shown(demand) <= seen + READING_ERROR)
    middle = (low + high) / 2 if predicted is None else min(max(predicted, low), high)
    return Alone(middle, high)


def speed_beside(demand: float, others: Sequence[float | None], mps: bool) -> float:
    """Return the speed (0..1] of a job beside others; `others` as in `Beside`."""
    return speeds(_demands(demand, others), mps=mps)[0]


def mean_speed(attempt: Attempt, demand: float, ran_s: float) -> float:
    """Return the mean speed (0..1] of an attempt in `ran_s` seconds."""
    mps = attempt.placement.collocation is Collocation.MPS
    each = []
    for usage in attempt.used.values():
        shared_s = sum(part.seconds for part in usage.beside)
        worked_s = sum(p.seconds * speed_beside(demand, p.others, mps) for p in usage.beside)
        whole_s = max(ran_s, shared_s)
        each.append((whole_s - shared_s + worked_s) / whole_s if whole_s > 0 else 1.0)
    return joint_speed(each) if each else 1.0


def _seconds_alone(attempt: Attempt, demand: float | None, mps: bool) -> float | None:
    ran_s = attempt.ran_s
    if ran_s is None or not any(usage.shared for usage in attempt.used.values()):
        return ran_s
    return None if demand is None else ran_s * mean_speed(attempt, demand, ran_s)


def _demands(demand: float, others: Sequence[float | None]) -> list[Demand]:
    known = [demand if other is None else min(1.0, max(0.0, other)) for other in others]
    return [Demand(min(1.0, max(LEAST_DEMAND, each))) for each in (demand, *known)]


def _activity(demand: float, part: Beside, mps: bool) -> float:
    demands = _demands(demand, part.others)
    return activity(demands, speeds(demands, mps=mps))


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the largest demand for which `holds`, which is true below it and false above."""
    low, high = LEAST_DEMAND, 1.0
    if holds(high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
