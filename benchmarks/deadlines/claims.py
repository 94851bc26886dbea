"""What is to be reached, and what is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from benchmarks.deadlines.methods import BASELINES, DEADLINE, EDF, FREE, OWN, Method
from radrm.lab.simulator.metrics import Metrics

_T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26, 12: 2.20}

Found = Mapping[tuple[int, float, Method], Sequence[Metrics]]
"""The runs over seeds, by scenario, load and method."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean, and half of its 95 % interval."""

    value: float
    half: float

    def __str__(self) -> str:
        return f"{self.value:.1f} ± {self.half:.1f}"


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of a value over seeds."""
    if len(values) < 2:
        return Mean(fmean(values), 0.0)
    t = _T95.get(len(values), 2.2 if len(values) < 30 else 1.96)
    return Mean(fmean(values), t * stdev(values) / sqrt(len(values)))


def total(found: Found, scenario: int, load: float, method: Method) -> Mean:
    """Return the total cost in EUR."""
    return mean([each.total_cost or 0.0 for each in found[scenario, load, method]])


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, and whether it holds."""

    words: str
    holds: bool


def saved(found: Found, scenario: int, load: float, method: Method, beside: Method) -> float:
    """Return by how many per cent a method is cheaper than another one."""
    cost = total(found, scenario, load, method).value
    return 100 * (1 - cost / total(found, scenario, load, beside).value)


def claims(found: Found) -> list[Claim]:
    """Return all claims about the published setting."""
    loads = {s: sorted({load for scenario, load, _ in found if scenario == s}) for s in (1, 2)}
    out = []
    for scenario, reach in ((1, 60.0), (2, 30.0)):
        best = max(
            (min(saved(found, scenario, load, FREE, each) for each in BASELINES), load)
            for load in loads[scenario]
        )
        words = (
            f"scenario {scenario}: andreas with free moves is at least {reach:.0f} % cheaper than "
            f"each of FIFO, EDF and PS at some load: {best[0]:.0f} % at load {best[1]:g}"
        )
        out.append(Claim(words, best[0] >= reach))
    worse = [
        (-saved(found, s, load, DEADLINE, EDF), s, load)
        for s in (1, 2)
        for load in loads[s]
        if saved(found, s, load, DEADLINE, EDF) < 0
    ]
    words = "deadline with moves of 60 s is at no load dearer than order due (EDF)"
    if worse:
        most = max(worse)
        words += f"; at load {most[2]:g} of scenario {most[1]} by {most[0]:.1f} %"
    out.append(Claim(words, not worse))
    for scenario in (1, 2):
        if 0.5 in loads[scenario]:
            rivals = (*BASELINES, *OWN)
            best_cost = min(total(found, scenario, 0.5, each).value for each in rivals)
            free = best_cost - total(found, scenario, 0.5, FREE).value
            ours = best_cost - total(found, scenario, 0.5, DEADLINE).value
            part = 100 * ours / free if free > 0 else 0.0
            words = (
                f"scenario {scenario}, load 0.5: deadline saves at least half of what andreas with "
                f"free moves saves, beside the cheapest of all FIFO, EDF and PS: {part:.0f} %"
            )
            out.append(Claim(words, part >= 50))
    return out
