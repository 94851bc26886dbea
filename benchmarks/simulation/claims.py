"""What the thesis says of its policies, and whether it holds in the simulated prototype.

A sentence compares rows: a figure is smaller in some than in others. It holds if the largest of
the first is below the smallest of the others by more than two standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from benchmarks import markdown
from benchmarks.simulation.published import BY_LOT, Row
from radrm.lab.simulator.metrics import Spread

UNITS = {
    "makespan_s": ("min", 60.0, 0),
    "mean_wait_s": ("min", 60.0, 0),
    "mean_exec_s": ("min", 60.0, 1),
    "oom_count": ("deaths", 1.0, 1),
    "energy_j": ("MJ", 1e6, 2),
}
"""The unit of a figure, its size and the digits shown."""

_ANY = {"max_smact": 1.0, "margin_mib": 2048}
EXTRA_ROWS = (
    Row("mix90", "worst fit at any SMACT", "magm", settings={**_ANY, "min_free_mib": 0}),
    Row("mix90", "best fit at any SMACT", "best-fit", settings=_ANY),
    *(
        Row(trace, "estimates by lot (80%)", "magm", BY_LOT, {"min_free_mib": 0, "margin_mib": 0})
        for trace in ("heavy60", "mix90")
    ),
)
"""The thesis explains best fit's execution time with packing by memory alone. By lot: the control
of the rows of GPUMemNet."""


@dataclass(frozen=True, slots=True)
class Claim:
    """`figure` is smaller in each row of `less` than in each of `more`; rows by their names."""

    section: str
    says: str
    figure: str
    less: Sequence[str]
    more: Sequence[str]
    trace: str = "mix90"


_WORST, _FIRST, _BEST, _LEAST = (
    f"Oracle {name}" for name in ("worst fit", "first fit", "best fit", "least utilized")
)
_STREAMS = "Oracle worst fit on streams"
_BLIND = ("RR (no condition)", "MAGM (no condition)")
_MAGM, _MAGM_75, _LUG = "MAGM (80%, 5 GB)", "MAGM (75%, 5 GB)", "LUG (80%, 5 GB)"
_LIMITED = ("MAGM (80%)", "MAGM (80%, 2 GB)", _MAGM, _MAGM_75, "MAGM (85%, 5 GB)")
_OWN = "MAGM + GPUMemNet (80%)"
_OTHERS = ("MAGM + Horus (80%)", "MAGM + FakeTensor (80%)")
_BY_MEMORY = ("MAGM + Horus", "MAGM + FakeTensor", "MAGM + GPUMemNet")
_SHARED = ("RR on MPS", "MAGM (2 GB, 80%)", "LUG (2 GB, 80%)", *_OTHERS)
_ALONE = "Exclusive"

CLAIMS = (
    Claim("6.4.1", "worst fit is fastest", "makespan_s", [_WORST], [_FIRST, _BEST, _LEAST]),
    Claim("6.4.1", "streams do not shorten total time", "makespan_s", [_ALONE], [_STREAMS]),
    Claim("6.4.1", "streams shorten waiting", "mean_wait_s", [_STREAMS], [_ALONE]),
    Claim(
        "6.4.1",
        "best fit has the longest execution",
        "mean_exec_s",
        [_WORST, _FIRST, _LEAST],
        [_BEST],
    ),
    Claim(
        "6.4.1",
        "the same without SMACT limit, against worst fit",
        "mean_exec_s",
        [EXTRA_ROWS[0].what],
        [EXTRA_ROWS[1].what],
    ),
    Claim("6.4.2", "no condition: longest total time", "makespan_s", [*_LIMITED, _LUG], _BLIND),
    Claim("6.4.2", "LUG is fastest", "makespan_s", [_LUG], [*_LIMITED, *_BLIND]),
    Claim("6.4.2", "conditions prevent deaths", "oom_count", [*_LIMITED, _LUG], _BLIND),
    Claim("6.4.2", "75% costs waiting", "mean_wait_s", [_MAGM], [_MAGM_75]),
    Claim("6.4.3", "estimates prevent deaths", "oom_count", [_OWN, *_OTHERS, *_BY_MEMORY], [_MAGM]),
    Claim("6.4.3", "GPUMemNet is the fastest estimator", "makespan_s", [_OWN], _OTHERS),
    Claim("6.4.6", "GPUMemNet needs least energy", "energy_j", [_OWN], _SHARED, "heavy60"),
)


def verdict(less: Spread, more: Spread, seeds: int) -> str:
    """Return `yes`, `no` or, within two standard errors, `noise`."""
    assert less.mean is not None and more.mean is not None
    error = 2 * sqrt(((less.sd or 0.0) ** 2 + (more.sd or 0.0) ** 2) / seeds)
    apart = more.mean - less.mean
    return "noise" if abs(apart) <= error else "yes" if apart > 0 else "no"


def claims_table(found: Mapping[tuple[str, str], Mapping[str, Spread]], seeds: int) -> list[str]:
    """Return a line for each claim; `found` has the figures of rows by trace and name."""

    def mean(of: Spread) -> float:
        assert of.mean is not None
        return of.mean

    rows = []
    for claim in CLAIMS:
        named, unit, digits = UNITS[claim.figure]
        less = max((found[claim.trace, row][claim.figure] for row in claim.less), key=mean)
        more = min((found[claim.trace, row][claim.figure] for row in claim.more), key=mean)
        low, high = (
            f"{mean(each) / unit:.{digits}f}±{(each.sd or 0) / unit:.{digits}f}"
            for each in (less, more)
        )
        says = f"{claim.section} {claim.says}"
        rows.append((says, verdict(less, more, seeds), f"{low}, {high} {named}"))
    return markdown.table(("the thesis says", "here", "less, more"), rows, right=(2,))
