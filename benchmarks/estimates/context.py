"""The effect of a measured CUDA context on estimates: `python -m benchmarks.estimates.context`.

The published jobs by the route `summary`, on a machine whose context is smaller than the
assumed one by a constant, as newer CUDA's is: every measured figure is lowered by that much.
Compared are the assumed context, a measured one, one learned from runs here
(`radrm.estimators.learning.contexts`), and what `radrm.estimators.learning.learned` makes of
those runs alone. Needs
../shared and no GPU.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks.estimates import summary_accuracy
from radrm.estimators.auto import Auto
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.learned import learned
from radrm.estimators.summary import CONTEXT_MIB, Summary
from tests.paths import SHARED_DATA

KIND = "NVIDIA A100-SXM4-40GB"
CONTEXTS_MIB = (CONTEXT_MIB, 1000.0, 524.0)
RUNS = (3, 10, 30)
ROUNDS = 20
FEW = 40
"""MLPs of the thousands in the data: small jobs, whose memory is mostly the context."""


@dataclass(frozen=True, slots=True)
class Known:
    """A job, its need on this machine, and the uncorrected estimate of the route."""

    name: str
    job: Description
    peak_mib: float
    raw_mib: float


def cases(data: Path, context_mib: float) -> list[Known]:
    found = [
        (c.group, c.job, c.measured_mib) for c in summary_accuracy.published(data / "jobs", 512)
    ]
    mlps = list(summary_accuracy.perceptrons(data / "mlp" / "mlp_train_memory_a100.csv"))
    found += [(c.name, c.job, c.measured_mib) for c in mlps[:: -(-len(mlps) // FEW)]]
    known = []
    for name, job, measured_mib in found:
        asked = replace(job, published={}, declared_mib=None, device_kind=KIND)
        (told,) = Summary().estimate(asked)
        known.append(Known(name, asked, measured_mib - CONTEXT_MIB + context_mib, told.value))
    return known


def runs_of(seen: Sequence[Known]) -> tuple[PastRun, ...]:
    return tuple(PastRun(round(k.peak_mib), KIND, told={"summary": k.raw_mib}) for k in seen)


def error(known: Sequence[Known], value: Callable[[Known], float]) -> float:
    return fmean(abs(value(k) - k.peak_mib) / k.peak_mib for k in known)


def after(known: Sequence[Known], count: int, seed: int) -> tuple[float, float]:
    """The errors on all other jobs after so many runs: learned as of now, and by `learned`
    alone."""
    mixed = random.Random(seed).sample(known, len(known))
    taught = {k.name for k in mixed[:count]}
    runs, rest = runs_of(mixed[:count]), [k for k in mixed[count:] if k.name not in taught]
    alone = learned("summary", runs, KIND)
    return (
        error(rest, lambda k: by_auto(replace(k.job, recent_runs=runs))),
        error(rest, lambda k: alone.value(k.raw_mib)),
    )


def by_auto(job: Description) -> float:
    return Auto((Summary(),)).estimate(job)[0].value


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimates.context")
    parser.add_argument("--data", type=Path, default=SHARED_DATA)
    args = parser.parse_args()
    if not (args.data / "jobs").is_dir() or not (args.data / "mlp").is_dir():
        sys.exit(f"{args.data}: has no jobs/ and mlp/; name the folder that has with --data")
    print("mean absolute error in % of what is needed")
    print("context  assumed  measured  " + "  ".join(f"{n} runs (alone)" for n in RUNS))
    for context_mib in CONTEXTS_MIB:
        known = cases(args.data, context_mib)
        assumed = error(known, lambda k: k.raw_mib)
        contexts = {"here": context_mib}
        measured = error(known, lambda k, c=contexts: by_auto(replace(k.job, contexts=c)))
        cells = []
        for count in RUNS:
            both = [after(known, count, seed) for seed in range(ROUNDS)]
            new, old = fmean(b[0] for b in both), fmean(b[1] for b in both)
            cells.append(f"{new:6.1%} ({old:6.1%})")
        print(f"{context_mib:7.0f}  {assumed:7.1%}  {measured:8.1%}  " + "  ".join(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
