"""The accuracy of estimates: the figures that compare estimators.

Sizes are in MiB. An error is the estimate minus the measurement. A relative error is a share of
the measurement; 0.05 is 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One job: its measurement and its estimate. `None`: the estimator gave none."""

    name: str
    measured_mib: float
    value_mib: float | None = None
    upper_mib: float | None = None
    seconds: float | None = None
    whole_device: bool = False
    """Whether the estimate is a whole device, without a figure."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """`estimated` of `jobs` jobs got a figure; all other fields are about these.

    `mape` and `median_error`: mean and median of the absolute relative errors.
    `under`: the number of estimates below the measurement; `upper_under`: the number of upper
    bounds below it. `over_mib`: the mean overestimate of the others; `upper_over_mib`: the same
    for the upper bound; `upper_over`: the same as a share.
    """

    jobs: int
    estimated: int
    whole_device: int
    mape: float | None
    median_error: float | None
    under: int
    worst_under_mib: float | None
    worst_over_mib: float | None
    over_mib: float | None
    upper_under: int
    upper_over_mib: float | None
    upper_over: float | None
    seconds: float | None

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def accuracy(cases: Sequence[Case]) -> Accuracy:
    """The figures for these cases."""
    known = [c for c in cases if c.value_mib is not None and not c.whole_device]
    errors = [c.value_mib - c.measured_mib for c in known if c.value_mib is not None]
    shares = [abs(e) / c.measured_mib for e, c in zip(errors, known, strict=True)]
    beyond = [
        (c.upper_mib - c.measured_mib, c.measured_mib) for c in known if c.upper_mib is not None
    ]
    over = [e for e in errors if e > 0]
    upper_over = [(e, whole) for e, whole in beyond if e > 0]
    seconds = [c.seconds for c in known if c.seconds is not None]
    return Accuracy(
        jobs=len(cases),
        estimated=len(known),
        whole_device=sum(c.whole_device for c in cases),
        mape=fmean(shares) if shares else None,
        median_error=median(shares) if shares else None,
        under=sum(e < 0 for e in errors),
        worst_under_mib=min((e for e in errors if e < 0), default=None),
        worst_over_mib=max(over, default=None),
        over_mib=fmean(over) if over else None,
        upper_under=sum(e < 0 for e, _ in beyond),
        upper_over_mib=fmean(e for e, _ in upper_over) if upper_over else None,
        upper_over=fmean(e / whole for e, whole in upper_over) if upper_over else None,
        seconds=median(seconds) if seconds else None,
    )
