"""What past runs on this machine say of an estimator: its bias, and its spread.

A prior that ships with radrm (errors measured elsewhere) gives way to this machine's own
errors as they come in. All figures are ratios, measured over estimated, or MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from radrm.core.rules import PastRun
from radrm.estimators.errors_seen import ERRORS_SEEN

PRIOR_RUNS = 10
"""The shipped errors count together as so many runs on this machine."""
PRIOR_SHIFTS = 3
"""No shift counts as so many runs: two runs alone do not move an estimate far."""
MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class Learned:
    """What is believed of one estimator here, after `runs` runs of its kind of GPU.

    `shift_mib` is added to its figure: context, libraries and habits of this machine.
    `ratios` are (measured / (estimated + shift), weight) pairs, lowest first.
    """

    runs: int
    shift_mib: float
    ratios: tuple[tuple[float, float], ...]

    def value(self, raw_mib: float) -> float:
        return max(raw_mib + self.shift_mib, 0.0)

    def upper(self, raw_mib: float, quantile: float) -> float:
        """So much at most in `quantile` (0..1) of all runs; never below `value`."""
        value = self.value(raw_mib)
        return value * max(1.0, _quantile(self.ratios, quantile))


def learned(source: str, runs: Sequence[PastRun], device_kind: str | None) -> Learned:
    """What `runs` (the latest first) tell of the estimator `source`."""
    pairs = [
        (run.told[source], float(run.peak_mib))
        for run in runs[:MOST_RUNS]
        if run.told.get(source, 0.0) > 0 and device_kind in (None, run.device_kind)
    ]
    shift_mib = 0.0
    if pairs:
        trust = len(pairs) / (len(pairs) + PRIOR_SHIFTS)
        shift_mib = trust * median(peak - raw for raw, peak in pairs)
    own = [(peak / max(raw + shift_mib, 1.0), 1.0) for raw, peak in pairs]
    seen = ERRORS_SEEN.get(source, _UNKNOWN)
    prior = [(ratio, PRIOR_RUNS / len(seen)) for ratio in seen]
    return Learned(len(pairs), shift_mib, tuple(sorted(own + prior)))


_UNKNOWN = (1.0,)
"""Of a third party's estimator nothing has been seen: it is believed until it has been."""


def _quantile(weighted: Sequence[tuple[float, float]], quantile: float) -> float:
    """The smallest ratio that more than `quantile` of all weight does not exceed: of few runs
    the next could lie beyond a bound that just holds for them."""
    total = sum(weight for _, weight in weighted)
    sums = accumulate(weight for _, weight in weighted)
    for (ratio, _), so_far in zip(weighted, sums, strict=True):
        if so_far > quantile * total + 1e-9:
            return ratio
    return weighted[-1][0]
