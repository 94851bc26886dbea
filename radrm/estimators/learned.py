"""What past runs on this machine say of an estimator: its bias, and its spread.

A prior that ships with radrm (errors measured elsewhere) gives way to this machine's own
errors as they come in. Runs of which the estimator said about as much count for more than
others: what is off by a factor, or tells buckets, errs otherwise with small jobs than with
large ones. All figures are ratios, measured over estimated, or MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log

from radrm.core.records import Estimate
from radrm.core.rules import Description, PastRun
from radrm.estimators.contexts import Correction, correction
from radrm.estimators.errors_seen import ERRORS_SEEN

PRIOR_RUNS = 10
"""The shipped errors count together as so many runs on this machine."""
PRIOR_SHIFTS = 3
"""No shift counts as so many runs: two runs alone do not move an estimate far."""
MOST_RUNS = 200
NEAR = 0.5
"""How fast a run's weight falls with the distance of the two figures, the standard deviation
of their logarithms: a figure half as large again has 0.7 of the weight, twice it 0.4, five
times it none. Over the published jobs (`python -m benchmarks.learning`) 0.25 to 0.7 do alike;
without weights Horus' bound misses 9 % of mix90's needs instead of 2 %, and is far wider."""

_LEAST = 0.125
"""A shift leaves at least this part of a figure."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What is believed of one estimator here: of each run of its kind of GPU (what it had
    said, the peak), and `prior`, the ratios that ship."""

    pairs: tuple[tuple[float, float], ...] = ()
    prior: tuple[float, ...] = (1.0,)
    near: float = NEAR

    @property
    def runs(self) -> int:
        return len(self.pairs)

    def shift_mib(self, raw_mib: float) -> float:
        """What is added to a figure: context, libraries and habits of this machine."""
        return self._shift_mib(self._weights(raw_mib))

    def value(self, raw_mib: float) -> float:
        return _shifted(raw_mib, self.shift_mib(raw_mib))

    def upper(self, raw_mib: float, quantile: float) -> float:
        """So much at most in `quantile` (0..1) of all runs; never below `value`.

        The larger of a bound by ratios and one by differences: what is off by a factor errs
        by more with larger jobs, what is off by a context as much with the smallest.
        """
        weights = self._weights(raw_mib)
        shift_mib = self._shift_mib(weights)
        value = _shifted(raw_mib, shift_mib)
        share = PRIOR_RUNS / len(self.prior)
        ratios = [(ratio, share) for ratio in self.prior]
        spreads = [((ratio - 1.0) * value, share) for ratio in self.prior]
        for (raw, peak), weight in zip(self.pairs, weights, strict=True):
            its_value = _shifted(raw, shift_mib)
            ratios.append((peak / its_value, weight))
            spreads.append((peak - its_value, weight))
        bound = value * max(1.0, _quantile(ratios, quantile))
        return max(bound, value + _quantile(spreads, quantile))

    def _weights(self, raw_mib: float) -> list[float]:
        """How much each run tells of a job of which so much is said."""
        here = log(max(raw_mib, 1.0))
        away = [(log(max(raw, 1.0)) - here) / self.near for raw, _ in self.pairs]
        return [exp(-each * each / 2) for each in away]

    def _shift_mib(self, weights: Sequence[float]) -> float:
        near = sum(weights)
        if near <= 0.0:
            return 0.0
        off = [(peak - raw, w) for (raw, peak), w in zip(self.pairs, weights, strict=True)]
        return near / (near + PRIOR_SHIFTS) * _quantile(off, 0.5)


def learned(source: str, runs: Sequence[PastRun], device_kind: str | None) -> Learned:
    """What `runs` (the latest first) tell of the estimator `source`."""
    pairs = tuple(
        (run.told[source], float(run.peak_mib))
        for run in runs[:MOST_RUNS]
        if run.told.get(source, 0.0) > 0 and device_kind in (None, run.device_kind)
    )
    return Learned(pairs, ERRORS_SEEN.get(source, _UNKNOWN))


def learned_for(told: Estimate, job: Description) -> tuple[Learned, Correction]:
    """What is believed of an estimator for this job, and what the CUDA context here adds to its
    figures, those of the past as well. `told.value` is its own figure."""
    kind = job.device_kind
    here = [r for r in job.recent_runs[:MOST_RUNS] if kind in (None, r.device_kind)]
    context = correction(told, job, here)
    pairs = tuple(
        (max(run.told[told.source] + shift_mib, 1.0), float(run.peak_mib))
        for run, shift_mib in context.runs
        if run.told.get(told.source, 0.0) > 0
    )
    return Learned(pairs, ERRORS_SEEN.get(told.source, _UNKNOWN)), context


_UNKNOWN = (1.0,)
"""Of a third party's estimator nothing has been seen: it is believed until it has been."""


def _shifted(raw_mib: float, shift_mib: float) -> float:
    """Never next to nothing, however far the runs beside it were off: a ratio to that would
    tell nothing."""
    return max(raw_mib + shift_mib, raw_mib * _LEAST, 1.0)


def _quantile(weighted: Iterable[tuple[float, float]], quantile: float) -> float:
    """The smallest figure that more than `quantile` of all weight does not exceed: of few runs
    the next could lie beyond a bound that just holds for them."""
    ordered = sorted(weighted)
    total = sum(weight for _, weight in ordered)
    sums = accumulate(weight for _, weight in ordered)
    for (figure, _), so_far in zip(ordered, sums, strict=True):
        if so_far > quantile * total * (1 + 1e-12):
            return figure
    return ordered[-1][0]
