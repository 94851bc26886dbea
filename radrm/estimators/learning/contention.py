"""What an attempt would have shown alone: its SM activity, and its time.

Theory of operation
-------------------
An attempt that shared its GPUs took longer, and their SM activity was that of all jobs there.
Its record (`Usage.beside`) divides the shared time by the demands of the neighbours, as they were
known then. The model of interference gives the activity of a shared GPU from the demands of
its jobs, and the speed of each job.

- SM activity: the readings while the attempt was alone, if there are enough. Else a Bayesian
  estimate over a grid of demands: each part of the shared time makes the demands likely for
  which the model's activity is the measured one, within the errors of the neighbours' demands.
  Near the ceiling of a GPU many demands give almost the same activity. Then the prior counts:
  the predicted demand, else a typical one.
- Time alone: each part times the speed that the model gives for it. Time without a part was
  alone. The longest time assumes the least demands that fit; without readings it is the whole.

The parts are not independent (they have neighbours in common), so n of them count as the root
of n. A job on several GPUs has one speed, from its mean speeds on each: their parts are not
aligned in time. Start-up counts as computing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log

from msgspec import Struct

from radrm.core.records import Attempt, Beside
from radrm.core.words import Collocation
from radrm.estimators.learning.learned import quantile_of
from radrm.interference.model import Demand, activity, joint_speed, speeds
from radrm.structs import Stored

LEAST_ALONE = 30
"""Readings of a GPU (one a second) that show the SM activity of a job alone."""
LEAST_DEMAND = 0.01
READING_ERROR = 0.02
"""Standard deviation of the model's activity from the measured one. An assumption."""
NEIGHBOUR_ERROR = 0.3
"""Relative standard deviation of the neighbours' demands. An assumption."""
PREDICTION_ERROR = 0.15
"""Relative standard deviation of the attempt's own predicted demand. An assumption."""
JOINT_ERROR = 0.2
"""Relative standard deviation of the speed of a job on several GPUs. An assumption."""
TYPICAL, TYPICAL_ERROR = 0.5, 0.3
"""The demand of a job of which nothing is known, and its standard deviation. Assumptions."""
_LEAST_ERROR = 0.03
_GRID = (0.02, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Small jobs are common, and a small step is large for them."""
_EDGES = (0.0, *((low + high) / 2 for low, high in pairwise(_GRID)), 1.0)
_MOST_PARTS = 5
"""The longest parts of a GPU's shared time that count for the demand."""
_TAIL = 0.05
_HALVINGS = 7


class Alone(Stored):
    """An attempt as if alone on its GPUs. None: unknown.

    `smact` is its SM activity (0..1), and `smact_most` the largest that fits the readings.
    `measured`: it was alone for some time, and `smact` is from then. `seconds` is the time that
    its work takes alone, and `seconds_most` the longest that fits.
    """

    smact: float | None = None
    smact_most: float | None = None
    measured: bool = False
    seconds: float | None = None
    seconds_most: float | None = None


class DemandRange(Struct, frozen=True):
    """The SM activity (0..1) of a job alone: the best figure, and a range that holds for 90 %."""

    value: float
    least: float
    most: float


def alone(attempt: Attempt, predicted: float | None, least_alone: int = LEAST_ALONE) -> Alone:
    """Return what an ended attempt shows of its job alone.

    `predicted` is the SM activity (0..1) that was predicted, if that came from a good source.
    `least_alone`: see `LEAST_ALONE`.
    """
    used, own, ran_s = attempt.used.values(), attempt.alone_smact, attempt.ran_s
    if not any(usage.shared for usage in used):
        own = attempt.smact_mean if own is None else own  # too short to have started up
        return Alone(own, own, own is not None, ran_s, ran_s)
    readings = sum(usage.alone_count for usage in used)
    measured = own is not None and readings >= least_alone
    demand: DemandRange | None
    if own is not None and measured:
        demand = DemandRange(own, own, own)
    else:
        demand = demand_beside(attempt, predicted)
    if demand is None:
        # Without a reading the time beside others is still an upper bound of that alone.
        typical_s = None if ran_s is None else ran_s * mean_speed(attempt, TYPICAL, ran_s)
        return Alone(seconds=typical_s, seconds_most=ran_s)
    if ran_s is None:
        return Alone(demand.value, demand.most, measured)
    seconds = ran_s * mean_speed(attempt, demand.value, ran_s)
    longest = ran_s * mean_speed(attempt, demand.least, ran_s, fastest=True)
    return Alone(demand.value, demand.most, measured, seconds, max(seconds, longest))


def demand_beside(attempt: Attempt, predicted: float | None) -> DemandRange | None:
    """Return the SM activity of a job from its shared time; None without a reading of that."""
    mps = attempt.placement.collocation is Collocation.MPS
    wide, ran_s = len(attempt.used) > 1, attempt.ran_s or 0.0
    parts = [
        (part, part.smact)
        for usage in attempt.used.values()
        for part in (
            Beside((), ran_s, usage.alone_smact),
            *sorted(usage.beside, key=lambda p: -p.seconds)[:_MOST_PARTS],
        )
        if part.smact is not None and part.seconds > 0
    ]
    if not parts:
        return None
    expected = TYPICAL if predicted is None else predicted
    error = TYPICAL_ERROR if predicted is None else PREDICTION_ERROR * predicted + _LEAST_ERROR
    logs = []
    for demand in _GRID:
        fit = -(((demand - expected) / error) ** 2) / 2
        joint = mean_speed(attempt, demand, ran_s, fitted=False) if wide else None
        for part, seen in parts:
            shown = _activity(demand, part.others, mps, 0.0, joint)
            less = _activity(demand, part.others, mps, -1.0, joint)
            deviation = (READING_ERROR**2 + (shown - less) ** 2) ** 0.5
            # Student's t with 3 degrees of freedom: neighbours on several GPUs may show far less.
            likely = -2 * log(1 + ((seen - shown) / deviation) ** 2 / 3) - log(deviation)
            fit += likely / len(parts) ** 0.5
        logs.append(fit)
    best = max(logs)
    cells = list(pairwise(_EDGES))
    weights = [exp(fit - best) * (high - low) for fit, (low, high) in zip(logs, cells, strict=True)]
    value = sum(d * w for d, w in zip(_GRID, weights, strict=True)) / sum(weights)
    # A demand can be anywhere in its cell.
    least = quantile_of([(low, w) for (low, _), w in zip(cells, weights, strict=True)], _TAIL)
    most = quantile_of([(high, w) for (_, high), w in zip(cells, weights, strict=True)], 1 - _TAIL)
    return DemandRange(value, min(value, max(LEAST_DEMAND, least)), max(value, most))


def mean_speed(
    attempt: Attempt, demand: float, ran_s: float, fastest: bool = False, fitted: bool = True
) -> float:
    """Return the mean speed (0..1] of an attempt in `ran_s` seconds.

    `fastest`: beside the least demands that fit the readings. `fitted`: unknown neighbours have
    a demand that fits them, not just a typical one.
    """
    mps = attempt.placement.collocation is Collocation.MPS
    each = []
    for usage in attempt.used.values():
        shared_s = sum(part.seconds for part in usage.beside)
        worked_s = sum(p.seconds * _speed(demand, p, mps, fastest, fitted) for p in usage.beside)
        whole_s = max(ran_s, shared_s)
        each.append((whole_s - shared_s + worked_s) / whole_s if whole_s > 0 else 1.0)
    return joint_speed(each) if each else 1.0


def speed_beside(demand: float, others: Sequence[float | None], mps: bool) -> float:
    """Return the speed (0..1] of a job beside others; unknown ones (None) are typical."""
    return speeds(_demands(demand, others), mps=mps)[0]


def _speed(demand: float, part: Beside, mps: bool, fastest: bool, fitted: bool) -> float:
    off = -1.0 if fastest else 0.0
    if fitted and None in part.others and part.smact is not None:
        # Unknown neighbours are typical, but within what the activity leaves them.
        least = _unknown(demand, part, mps, off, part.smact - READING_ERROR)
        unknown = least
        if not fastest:
            most = _unknown(demand, part, mps, off, part.smact + READING_ERROR)
            unknown = min(max(TYPICAL, least), most)
        return speeds(_demands(demand, part.others, off, unknown), mps=mps)[0]
    return speeds(_demands(demand, part.others, off), mps=mps)[0]


def _unknown(demand: float, part: Beside, mps: bool, off: float, most: float) -> float:
    """Return the largest demand of unknown neighbours for which the GPU shows at most `most`."""
    low, high = LEAST_DEMAND, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        demands = _demands(demand, part.others, off, middle)
        fits = activity(demands, speeds(demands, mps=mps)) <= most
        low, high = (middle, high) if fits else (low, middle)
    return low


def _demands(
    demand: float,
    others: Sequence[float | None],
    off: float = 0.0,
    unknown: float | None = None,
) -> list[Demand]:
    """Return the demands, the others' `off` standard deviations off. Unknown ones have `unknown`,
    else a typical demand."""
    typical = TYPICAL + off * TYPICAL_ERROR if unknown is None else unknown
    beside = [typical if o is None else o * (1 + off * NEIGHBOUR_ERROR) for o in others]
    return [Demand(min(1.0, max(LEAST_DEMAND, each))) for each in (demand, *beside)]


def _activity(
    demand: float, others: Sequence[float | None], mps: bool, off: float, joint: float | None
) -> float:
    """Return the activity of a GPU in the model. `joint`: the mean speed of a job on several
    GPUs, which is unknown at each moment."""
    demands = _demands(demand, others, off)
    fixed = None if joint is None else {0: joint * (1 + off * JOINT_ERROR)}
    return activity(demands, speeds(demands, mps=mps, fixed=fixed))
