"""The errors of each estimator on measured jobs: the figures of `errors_seen.py`.

    python -m benchmarks.estimates.errors_seen --jobs FOLDER --mlps CSV --timm CSV \
        --tables FOLDER --documents FOLDER --python PYTHON

Prints, for each estimator, the accuracy and how good its upper bound is when its errors
are learned on one half of the models and tried on the other, then the ratios (measured over
estimated) as `radrm/estimators/learning/learned.py` has them. Halves are by model, so that no
model is in both. `--tables` holds what `benchmarks.estimates.timm_tables` wrote, `--documents` what
`benchmarks/estimates/trace_accuracy.py --keep` did; without them those cases are left out.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.estimates import summary_accuracy, trace_accuracy
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.estimators.gpumemnet.estimator import GPUMemNet
from radrm.estimators.horus import Horus
from radrm.estimators.interface import Description, Estimator
from radrm.estimators.learning.learned import learned
from radrm.estimators.memory import context_mib
from radrm.estimators.summaries.text import BadSummary
from radrm.estimators.summary import Summary
from radrm.lab.experiments.evaluation import Case, accuracy
from radrm.structs import replace

QUANTILES = 40
QUANTILE = 0.95
MLPS_OF_ALL = 40
"""The number of MLPs that count: all 2,100 would make every error look small."""


@dataclass(frozen=True)
class Seen:
    """The estimate of one estimator for one job. The halves are made by `model`."""

    model: str
    kind: str
    measured_mib: float
    value_mib: float

    @property
    def ratio(self) -> float:
        return self.measured_mib / self.value_mib

    @property
    def half(self) -> int:
        return zlib.crc32(self.model.encode()) % 2


def from_summaries(args: argparse.Namespace) -> Iterator[tuple[str, str, Description, float]]:
    """Model, kind, job and measured memory of every job that has a summary."""
    for case in summary_accuracy.published(args.jobs, 512):
        kind = "transformers" if case.group.split("_")[0] in ("BERT", "gpt2", "xlnet") else "CNNs"
        yield case.group, kind, case.job, case.measured_mib
    if args.mlps is not None:
        for case in list(summary_accuracy.perceptrons(args.mlps))[::-1][:MLPS_OF_ALL]:
            yield case.name, "MLPs", case.job, case.measured_mib
    if args.timm is not None and args.tables is not None:
        for case in summary_accuracy.timm_models(args.timm, args.tables):
            yield case.group, "TIMM", case.job, case.measured_mib


def by_summary(args: argparse.Namespace) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {}
    rules: tuple[Estimator, ...] = (Summary(), GPUMemNet(), Horus())
    for model, kind, job, measured in from_summaries(args):
        for rule in rules:
            try:
                told = rule.estimate(_unpublished(job))
            except BadSummary:
                continue
            if told and told[0].value < WHOLE_DEVICE_MIB:
                seen = Seen(model, kind, measured, told[0].value)
                found.setdefault(rule.name, []).append(seen)
    return found


def _unpublished(job: Description) -> Description:
    return replace(job, published={})


def by_trace(args: argparse.Namespace) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {}
    cases = [*trace_accuracy.published(args.jobs)]
    if args.timm is not None:
        cases += trace_accuracy.timm(args.timm, args.sample, args.seed)
    for case in cases:
        outcome = trace_accuracy.trace(case, args.python, args.documents)
        if outcome.traced is None:
            print(f"{case.name}: {outcome.error}")
            continue
        model, kind = case.name.partition(" ")[0], "TIMM" if "timm" in case.factory else "published"
        seen = Seen(model, kind, case.measured_mib, outcome.estimate_mib)
        found.setdefault("trace", []).append(seen)
        fake_mib = outcome.traced.faketensor_mib
        if fake_mib > 0:
            fake = Seen(model, kind, case.measured_mib, fake_mib)
            found.setdefault("faketensor", []).append(fake)
    return found


def upper_ratio(seen: Sequence[Seen]) -> float:
    """The factor for estimates such that `QUANTILE` of these jobs need less."""
    with patch("radrm.estimators.learning.learned.ERRORS_SEEN", {"some": tuple(quantiles(seen))}):
        return learned("some", (), None).upper(1.0, QUANTILE)


def tried(seen: Sequence[Seen]) -> list[Case]:
    """Every job with the upper bound that the other half's errors give."""
    bounds = {half: upper_ratio([s for s in seen if s.half != half] or seen) for half in (0, 1)}
    return [Case(s.model, s.measured_mib, s.value_mib, s.value_mib * bounds[s.half]) for s in seen]


def quantiles(seen: Sequence[Seen]) -> list[float]:
    """Evenly weighted ratios, lowest first; every kind of job counts alike."""
    kinds: dict[str, list[float]] = {}
    for s in seen:
        kinds.setdefault(s.kind, []).append(s.ratio)
    weighted = sorted((r, 1 / len(rs)) for rs in kinds.values() for r in rs)
    total, so_far, found = sum(w for _, w in weighted), 0.0, []
    for ratio, weight in weighted:
        so_far += weight
        while len(found) < QUANTILES and so_far / total >= (len(found) + 0.5) / QUANTILES - 1e-9:
            found.append(round(ratio, 3))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--mlps", type=Path)
    parser.add_argument("--timm", type=Path)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    found = by_summary(args)
    if args.documents is not None:
        found |= by_trace(args)
    print(f"context of an A100: {context_mib('A100'):.0f} MiB; upper bound at {QUANTILE:.0%}")
    head = f"{'':26}{'jobs':>6}{'MAPE':>8}{'median':>8}{'under':>7}{'beyond upper':>14}"
    print(head + f"{'upper over':>14}{'of the need':>13}")
    for name, seen in found.items():
        cases = tried(seen)
        for kind in ["all", *dict.fromkeys(s.kind for s in seen)]:
            some = [c for c, s in zip(cases, seen, strict=True) if kind in ("all", s.kind)]
            told = accuracy(name, some)
            assert told.mape is not None and told.median_error is not None
            over = f"{told.upper_over_mib or 0:.0f} MiB"
            print(
                f"{name + ', ' + kind:26}{told.jobs:6}{told.mape:8.1%}{told.median_error:8.1%}"
                f"{told.under:7}{told.upper_under / told.jobs:14.1%}{over:>14}"
                f"{told.upper_over or 0:13.1%}"
            )
    print(json.dumps({name: quantiles(seen) for name, seen in found.items()}))


if __name__ == "__main__":
    main()
