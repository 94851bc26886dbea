"""How good estimates were: the figures by which estimators are compared.

Sizes in MiB. An error is estimated less measured; relative errors are shares of what was
measured, 0.05 being 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One job: what was measured, and what was said of it. `None`: nothing was said."""

    name: str
    measured_mib: float
    value_mib: float | None = None
    upper_mib: float | None = None
    seconds: float | None = None
    whole_device: bool = False
    """The estimator said no more than that it takes a whole device."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of `jobs` jobs `estimated` got a figure; all else is about those.

    `mape` and `median_error`: mean and median of the absolute relative errors.
    `under`: how many were estimated below what was measured; `upper_under`: how many
    exceeded even the upper bound. `over_mib`: mean of how far the figure lay above, where
    it did; `upper_over_mib`: the same of the upper bound; `upper_over`: as a share.
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
    """The figures of some cases."""
    told = [c for c in cases if c.value_mib is not None and not c.whole_device]
    errors = [c.value_mib - c.measured_mib for c in told if c.value_mib is not None]
    shares = [abs(e) / c.measured_mib for e, c in zip(errors, told, strict=True)]
    beyond = [
        (c.upper_mib - c.measured_mib, c.measured_mib) for c in told if c.upper_mib is not None
    ]
    over = [e for e in errors if e > 0]
    upper_over = [(e, whole) for e, whole in beyond if e > 0]
    seconds = [c.seconds for c in told if c.seconds is not None]
    return Accuracy(
        jobs=len(cases),
        estimated=len(told),
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
