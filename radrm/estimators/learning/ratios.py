"""Bounds of SM activity and duration, from ratios of measured to predicted figures.

As for memory (`learned`), the shipped ratios count until this machine has its own. These shipped
ratios are assumptions, except those of shared runs (see beside them): no published data has
repeated runs of the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec import Struct

from radrm.core.records import DECLARED, MEASURED, Chip, Estimate
from radrm.core.words import Quantity
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.learned import MOST_RUNS, PRIOR_RUNS, PRIOR_SHIFTS, quantile_of
from radrm.structs import replace

ALONE = "history"
"""The source of figures from runs of the same job that were alone."""
PROFILED = "profile"
"""The source of durations from the pace of short runs of the same job on its kind of GPU."""
SHARED = "history, shared runs"
"""The source of figures from runs of the same job beside others, corrected by the model."""
SAME_NAME = "history, same name"
"""The source of figures from runs of the user's jobs of the same name."""

OWN_JOBS = "history, usual for the user"
"""The source of what is usual for the user's jobs here, and"""
ALL_JOBS = "history, usual here"
"""for the jobs of all users."""

# fmt: off
ASSUMED: Mapping[Quantity, Mapping[str, tuple[float, ...]]] = {
    Quantity.SMACT: {
        ALONE: (0.9, 0.95, 1.0, 1.05, 1.15),
        SHARED: (0.8, 0.9, 1.0, 1.1, 1.3),
        SAME_NAME: (0.3, 0.5, 0.8, 1.0, 1.25, 2.0, 3.0),
    },
    Quantity.DURATION: {
        ALONE: (0.85, 0.95, 1.0, 1.1, 1.3),
        PROFILED: (0.8, 0.9, 1.0, 1.1, 1.3),
        SHARED: (0.75, 0.85, 0.95, 1.0, 1.1, 1.25, 1.5),
        SAME_NAME: (0.1, 0.3, 0.7, 1.0, 1.5, 3.0, 10.0),
    },
}
# fmt: on
_LEAST, _MOST = 1e-3, 1e3
"""A ratio outside of these has another cause than an error of prediction."""


class Ratios(Struct, frozen=True):
    """The errors of one source of one quantity: measured over predicted, here and as assumed."""

    seen: tuple[float, ...] = ()
    prior: tuple[float, ...] = (1.0,)

    @property
    def bias(self) -> float:
        """The factor that corrects a prediction. A few runs move it little."""
        runs = len(self.seen)
        return median(self.seen) ** (runs / (runs + PRIOR_SHIFTS)) if runs else 1.0

    def upper(self, quantile: float) -> float:
        """Return the factor on a prediction that holds for `quantile` (0..1) of all runs.

        It is at least `bias`.
        """
        bias, share = self.bias, PRIOR_RUNS / len(self.prior)
        weighted = [(bias * ratio, share) for ratio in self.prior]
        weighted += [(ratio, 1.0) for ratio in self.seen]
        return max(bias, quantile_of(weighted, quantile))


def told_of(
    estimates: Sequence[Estimate], quantity: Quantity, chip: Chip | None = None
) -> dict[str, float]:
    """Return each source's own figure of a quantity on a kind of GPU, the best one first.

    What earlier attempts of the job itself have measured is left out: an attempt that has just
    ended may be among them.
    """
    found: dict[str, float] = {}
    for each in estimates:
        if each.quantity is quantity and each.source != MEASURED:
            own = each.value if each.raw is None else each.raw
            found.setdefault(each.source, replace(each, value=own).on(chip).value)
    return found


def trusted(told_smact: Mapping[str, float]) -> float | None:
    """Return the predicted SM activity of a good source: others would confirm themselves."""
    return next((told_smact[s] for s in (DECLARED, ALONE) if s in told_smact), None)


def ratios(source: str, quantity: Quantity, runs: Sequence[PastRun], kind: str | None) -> Ratios:
    """Return what `runs` (the latest first) on this kind of GPU show of a source.

    The SM activity of a run counts if it was measured alone: a corrected one has errors of its
    own. A duration counts if it is known of all the job's work.
    """
    found = []
    for run in runs[:MOST_RUNS]:
        told, measured = run.told_smact.get(source), run.own_smact
        if quantity is Quantity.DURATION:
            told, measured = run.told_duration.get(source), run.duration_s
        if told and measured and kind in (None, run.device_kind):
            ratio = measured / told
            found += [ratio] if _LEAST <= ratio <= _MOST else []
    return Ratios(tuple(found), ASSUMED.get(quantity, {}).get(source, (1.0,)))


def bounded(estimate: Estimate, job: Description, quantile: float) -> Estimate:
    """Return a prediction of SM activity or duration, corrected and with its upper bound.

    A declared value stays; only its bound is learned. SM activity is at most 1, and a duration
    at most the job's time limit.
    """
    known = ratios(estimate.source, estimate.quantity, job.recent_runs, job.device_kind)
    declared = estimate.source == DECLARED
    value = estimate.value * (1.0 if declared else known.bias)
    spread = max(estimate.upper, estimate.value) - estimate.value
    upper = max(value, estimate.value * known.upper(quantile), value + spread)
    most = job.spec.time_limit_s if estimate.quantity is Quantity.DURATION else 1.0
    if most is not None:
        value, upper = min(value, most), min(upper, most)
    return replace(estimate, value=value, upper=upper, raw=None if declared else estimate.value)
