"""How similar a past run must be to predict a new one: `python -m benchmarks.estimates.learning`.

The published jobs in the order of their traces: each is bounded by what those before it have
taught (`radrm.estimators.learning.learned`), for several widths of what counts as near. Needs the
traces of ../shared and no GPU.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.simulation.published import TRACES, published_trace
from radrm.estimators.learning.learned import ERRORS_SEEN, MOST_RUNS, NEAR, Learned
from tests.paths import SHARED_DATA

ESTIMATORS = ("gpumemnet", "horus")
WIDTHS = (math.inf, 1.0, 0.7, NEAR, 0.35, 0.25, 0.15)
QUANTILE = 0.95
FAILED_MIB = 40000
"""Estimates from this size on are no figures (the prototype's mark of a failure)."""


def bounds(pairs: Sequence[tuple[float, float]], prior: tuple[float, ...], near: float) -> None:
    """One line: of (told, needed) in their order, how often and how far the bound is off."""
    seen: list[tuple[float, float]] = []
    upper = []
    for told, needed in pairs:
        known = Learned(tuple(seen[:MOST_RUNS]), prior, near)
        upper.append(known.upper(told, QUANTILE))
        seen.insert(0, (told, needed))
    needs = [needed for _, needed in pairs]
    missed = fmean(bound < need for bound, need in zip(upper, needs, strict=True))
    over = sorted(max(0.0, bound - need) for bound, need in zip(upper, needs, strict=True))
    width = "any" if math.isinf(near) else f"{near:g}"
    mean_gib, median_gib = fmean(over) / 1024, over[len(over) // 2] / 1024
    print(f"  {width:>5}  {missed:7.1%}  {mean_gib:9.1f}  {median_gib:9.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimates.learning")
    parser.add_argument("--data", type=Path, default=SHARED_DATA)
    args = parser.parse_args()
    if not (args.data / "traces").is_dir():
        sys.exit(f"{args.data}: has no traces/; name the folder that has with --data")
    for trace in TRACES:
        jobs = published_trace(trace, args.data)
        for name in ESTIMATORS:
            told = [(job.estimates.get(name, math.inf), job.memory_mib) for job in jobs]
            pairs = [(mib, need) for mib, need in told if mib < FAILED_MIB]
            print(f"{trace}, {name}: {len(pairs)} jobs")
            print("   near   missed  over, GiB  its median")
            for near in WIDTHS:
                bounds(pairs, ERRORS_SEEN[name], near)
    return 0


if __name__ == "__main__":
    sys.exit(main())
