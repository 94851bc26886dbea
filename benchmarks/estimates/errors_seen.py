"""The errors of each estimator by family of models, held out: the figures of `learned.py`.

    python -m benchmarks.estimates.errors_seen --jobs FOLDER --mlps CSV --timm CSV \
        --tables FOLDER --documents FOLDER

Prints, for each estimator and family, errors and how good upper bounds are. The architectures
(ResNet, ViT, ...) are split at random into two halves, many times. The errors of one half bound
the estimates of the other, by the daemon's own rule, so no architecture is judged by its own
errors. Shown are the medians over the splits, and the tenth and ninetieth of 100 splits.
Then the shipped ratios (measured over estimated) for `radrm/estimators/learning/learned.py`.

The CUDA context is that of the machine of these measurements, as after a probe. `--tables` holds
what `benchmarks.estimates.timm_tables` wrote, `--documents` what `trace_accuracy --keep` wrote:
every document there counts. TIMM's script sets `cudnn.benchmark`, so its CNNs are of that family,
whose bound is a multiple of the largest convolution (`memory.MEASURED_MAPS`) in place of ratios.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.estimates import summary_accuracy, trace_accuracy
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.estimators.families import Family
from radrm.estimators.gpumemnet.estimator import GPUMemNet
from radrm.estimators.horus import Horus
from radrm.estimators.interface import Description, Estimator
from radrm.estimators.learning.learned import Learned
from radrm.estimators.memory import MEASURED_MAPS, MEASURED_SPREAD, TRIED, context_mib
from radrm.estimators.summaries.text import BadSummary
from radrm.estimators.summary import Summary
from radrm.estimators.trace import TRIAL_SPREAD
from radrm.structs import replace

QUANTILES = 40
QUANTILE = 0.95
SPLITS = 100
MLPS_OF_ALL = 40
"""The number of MLPs that count: all 2,100 would make every error look small."""
LEAST_JOBS = 8
"""A family with fewer jobs has no shipped errors of its own."""
LEAST_ARCHITECTURES = 4
ALL = "all"

_AFFIX = re.compile(r"^(tf|legacy|gluon|seresnet|ese|cs3|dla|dm|bat|lambda|halo|skresnet)_?")


@dataclass(frozen=True)
class Seen:
    """The estimate of one estimator for one job. `family` is None where it is unknown, `map_mib` a
    traced model's largest convolution, `tried_mib` what trials of `cudnn.benchmark` take."""

    architecture: str
    family: str | None
    measured_mib: float
    value_mib: float
    map_mib: float = 0.0
    tried_mib: float = 0.0

    @property
    def ratio(self) -> float:
        return self.measured_mib / self.value_mib

    @property
    def error(self) -> float:
        return abs(self.value_mib / self.measured_mib - 1)


def architecture_of(model: str) -> str:
    """Return the first word of a model's name without its digits: `vit_base_patch16` is a `vit`."""
    word = re.match(r"[a-z]+", _AFFIX.sub("", model.lower()))
    return word.group() if word is not None else model


# ------------------------------------------------------------------ the cases


def from_summaries(args: argparse.Namespace) -> Iterator[tuple[str, Description, float]]:
    """Architecture, job and measured memory of every job that has a summary."""
    for case in summary_accuracy.published(args.jobs, 512):
        yield architecture_of(case.group), case.job, case.measured_mib
    if args.mlps is not None:
        for case in list(summary_accuracy.perceptrons(args.mlps))[::-1][:MLPS_OF_ALL]:
            yield case.name, case.job, case.measured_mib
    if args.timm is not None and args.tables is not None:
        for case in summary_accuracy.timm_models(args.timm, args.tables):
            yield architecture_of(case.group), case.job, case.measured_mib


def by_summary(args: argparse.Namespace) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {}
    rules: tuple[Estimator, ...] = (Summary(), GPUMemNet(), Horus())
    for architecture, job, measured in from_summaries(args):
        family = None
        for rule in rules:
            try:
                told = rule.estimate(replace(job, published={}))
            except BadSummary:
                continue
            if told and told[0].value < WHOLE_DEVICE_MIB:
                family = told[0].family or family
                seen = Seen(architecture, family, measured, told[0].value)
                found.setdefault(rule.name, []).append(seen)
    return found


def by_trace(args: argparse.Namespace) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {}
    cases = list(trace_accuracy.published(args.jobs))
    if args.timm is not None:
        cases += trace_accuracy.timm(args.timm, None, 0)
    for case in cases:
        if not trace_accuracy.document_of(case, args.documents).exists():
            continue
        outcome = trace_accuracy.trace(case, "", args.documents)
        if outcome.traced is None or outcome.excluded:
            print(f"{case.name} is left out: {outcome.error or outcome.excluded}")
            continue
        model = case.name.partition(" ")[0]
        traced, value = outcome.traced, outcome.estimate_mib
        tried = TRIAL_SPREAD * traced.trial_mib + context_mib(trace_accuracy.DEVICE)
        seen = Seen(
            architecture_of(model), traced.family.known, case.measured_mib, value,
            traced.map_mib, tried,
        )  # fmt: skip
        found.setdefault("trace", []).append(seen)
        if outcome.traced.faketensor_mib > 0:
            fake = replace_value(seen, outcome.traced.faketensor_mib)
            found.setdefault("faketensor", []).append(fake)
    return found


def replace_value(seen: Seen, value_mib: float) -> Seen:
    return Seen(seen.architecture, seen.family, seen.measured_mib, value_mib)


# ------------------------------------------------------------------ held out


@dataclass(frozen=True)
class Held:
    """How good bounds are for jobs of one family in one split: the share of jobs beyond, and the
    mean excess of the bounds over the need of the others."""

    beyond: float
    over: float


def priors(seen: Sequence[Seen]) -> dict[str, tuple[float, ...]]:
    """Return the ratios for all jobs, and for each family with enough jobs."""
    found = {ALL: tuple(quantiles(seen))}
    families: dict[str, list[Seen]] = {}
    for each in seen:
        if each.family is not None:
            families.setdefault(each.family, []).append(each)
    for family, jobs in families.items():
        if enough(jobs) and family != Family.BENCHMARK.value:
            found[family] = tuple(quantiles(jobs))
    return found


def enough(jobs: Sequence[Seen], part: float = 1.0) -> bool:
    """Return whether a family has ratios of its own; in a split a `part` of all suffices."""
    architectures = {each.architecture for each in jobs}
    return len(jobs) >= LEAST_JOBS * part and len(architectures) >= LEAST_ARCHITECTURES * part


def quantiles(seen: Sequence[Seen]) -> list[float]:
    """Return quantiles of the ratio for a further job, lowest first.

    Each is the larger of two: the empirical one, and that of a Student's t distribution about the
    mean: twenty jobs do not show the twenty-first's worst.
    """
    return [max(pair) for pair in zip(_empirical(seen), _of_t(seen), strict=True)]


def _of_t(seen: Sequence[Seen]) -> list[float]:
    """Return the quantiles of a prediction by the jobs within half and twice of the estimate.

    Farther ones are in the empirical quantiles, and would make all of these wide.
    """
    near = [each.ratio for each in seen if 0.5 <= each.ratio <= 2.0] or [1.0]
    count = len({each.architecture for each in seen})
    spread = statistics.stdev(near) if len(near) > 1 else 0.1
    wide = spread * (1 + 1 / len(near)) ** 0.5
    return [
        round(statistics.mean(near) + wide * _t((at + 0.5) / QUANTILES, max(count - 1, 2)), 3)
        for at in range(QUANTILES)
    ]


def _t(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t (Cornish and Fisher's expansion, to the second order)."""
    z = statistics.NormalDist().inv_cdf(probability)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def _empirical(seen: Sequence[Seen]) -> list[float]:
    ordered = sorted(each.ratio for each in seen)
    at = (int((n + 0.5) / QUANTILES * len(ordered)) for n in range(QUANTILES))
    return [round(ordered[each], 3) for each in at]


def held_out(seen: Sequence[Seen], family: str, by_family: bool, seed: int) -> Held | None:
    """Bound the jobs of one half of the architectures by the errors of the other.

    None: the half has no job of the family, or nothing bounds it.
    """
    names = sorted({each.architecture for each in seen})
    random.Random(f"split {seed}").shuffle(names)
    judged = set(names[: len(names) // 2])
    known = [each for each in seen if each.architecture not in judged]
    mine = [s for s in seen if s.architecture in judged and family in (ALL, s.family)]
    if not known or not mine:
        return None
    found = _half_priors(known) if by_family else {ALL: tuple(quantiles(known))}
    maps = maps_of(known) if by_family else None
    beyond, over = 0, []
    for each in mine:
        if each.map_mib and maps is not None and each.family == Family.BENCHMARK.value:
            upper = MEASURED_SPREAD * each.value_mib + maps * each.map_mib
            upper = max(upper, each.tried_mib if _long(each) else 0.0)
        else:
            prior = found.get(each.family or ALL, found[ALL])
            upper = Learned(prior=prior).upper(each.value_mib, QUANTILE)
        if each.measured_mib > upper:
            beyond += 1
        else:
            over.append(upper / each.measured_mib - 1)
    return Held(beyond / len(mine), statistics.mean(over) if over else 0.0)


def _long(each: Seen) -> bool:
    """Return whether trials take so much more that their bound counts."""
    return each.tried_mib > TRIED * each.value_mib


def maps_of(seen: Sequence[Seen]) -> float | None:
    """Return the multiple of the largest convolution that holds for most jobs with
    `cudnn.benchmark`, among those whose measurement is not that of a trial."""
    found = sorted(
        max(each.measured_mib - MEASURED_SPREAD * each.value_mib, 0.0) / each.map_mib
        for each in seen
        if each.map_mib and not (_long(each) and each.measured_mib > 1.1 * each.value_mib)
    )
    return found[int(QUANTILE * len(found))] if found else None


def _half_priors(seen: Sequence[Seen]) -> dict[str, tuple[float, ...]]:
    found = {ALL: tuple(quantiles(seen))}
    for family in {each.family for each in seen if each.family is not None}:
        jobs = [each for each in seen if each.family == family]
        if enough(jobs, part=0.5):
            found[family] = tuple(quantiles(jobs))
    return found


# ------------------------------------------------------------------ the table


def rows(name: str, seen: Sequence[Seen]) -> Iterator[str]:
    families = sorted({each.family for each in seen if each.family is not None})
    for family in (ALL, *families):
        some = [each for each in seen if family in (ALL, each.family)]
        errors = [each.error for each in some]
        cells = [
            f"{name}, {family}",
            str(len(some)),
            str(len({each.architecture for each in some})),
            f"{statistics.mean(errors):.1%}",
            f"{statistics.median(errors):.1%}",
        ]
        for by_family in (False, True):
            held = [h for s in range(SPLITS) if (h := held_out(seen, family, by_family, s))]
            cells += [_spread([h.beyond for h in held]), _spread([h.over for h in held])]
        yield "| " + " | ".join(cells) + " |"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    return f"{statistics.median(ordered):.0%} ({low:.0%} to {high:.0%})"


def shipped(found: Mapping[str, Sequence[Seen]]) -> str:
    return json.dumps({name: priors(seen) for name, seen in found.items()}, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--mlps", type=Path)
    parser.add_argument("--timm", type=Path)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--ratios", action="store_true", help="print the shipped ratios, too")
    args = parser.parse_args()
    found = by_summary(args)
    if args.documents is not None:
        found |= by_trace(args)
    print(
        f"context {context_mib('A100'):.0f} MiB; bounds at {QUANTILE:.0%}; median of {SPLITS} "
        "random splits by architecture (a tenth and nine tenths of them)\n"
    )
    titles = ("estimator, family", "jobs", "architectures", "mean error", "median")
    bounds = ("beyond, all alike", "over, all alike", "beyond, by family", "over, by family")
    print("| " + " | ".join((*titles, *bounds)) + " |")
    print("|" + "---|" * (len(titles) + len(bounds)))
    for name, seen in found.items():
        for row in rows(name, seen):
            print(row)
    if args.ratios:
        print(shipped(found))
        print(f"MEASURED_MAPS {maps_of(found.get('trace', ()))}, shipped {MEASURED_MAPS}")


if __name__ == "__main__":
    main()
