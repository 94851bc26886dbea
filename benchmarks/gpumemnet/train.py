"""Train GPUMemNet's networks, test them on what they have not seen, write both down.

    python -m benchmarks.gpumemnet.train            the weights and the tables
    python -m benchmarks.gpumemnet.train --tables   only the tables, weights left alone

Each family is fitted on the training rows of a split, for the tables, and then on all
rows, for the weights that radrm ships. Splits are 70 % training, 10 % validation, 20 %
test, by groups: rows of one architecture are never parted. Everything is seeded.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.gpumemnet import data, fit, scores
from benchmarks.gpumemnet.data import Row
from radrm.estimators.gpumemnet.estimator import Ensemble
from radrm.estimators.gpumemnet.features import Family

REPOSITORY = Path(__file__).parents[2]
WEIGHTS = REPOSITORY / "radrm" / "estimators" / "weights"
TABLES = REPOSITORY / "docs" / "lab" / "gpumemnet-tables.md"
SEED = 5
MLP_1_GB = (2000, 3000, 4000, 5000)
MLP_2_GB = (2000, 4000, 6000)
STEPS_OF_8_GB = (8000, 16000, 24000, 32000, 40000)
OF_PUBLISHED_JOBS = (
    "resnet",
    "efficientnet",
    "mobilenet",
    "inception",
    "vgg",
    "legacy",
    "xception",
)
"""TIMM's groups that hold the published jobs' models: never trained on before a test."""


@dataclass(frozen=True, slots=True)
class Split:
    train: list[Row]
    validation: list[Row]
    test: list[Row]

    def __add__(self, other: Split) -> Split:
        return Split(
            self.train + other.train,
            self.validation + other.validation,
            self.test + other.test,
        )


def split(rows: Sequence[Row], turn: int) -> Split:
    """One of five: 70/10/20 by groups, and over the five turns every row is tested once."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    names = sorted(groups)
    random.Random(SEED).shuffle(names)
    parts: list[list[Row]] = [[] for _ in range(10)]
    for name in sorted(names, key=lambda name: -len(groups[name])):
        min(parts, key=len).extend(groups[name])
    parts = parts[2 * turn :] + parts[: 2 * turn]
    train = [row for part in parts[3:] for row in part]
    return Split(train, validation=parts[2], test=parts[0] + parts[1])


def without(rows: Sequence[Row], groups: Iterable[str]) -> Split:
    """These groups are tested, all others trained on."""
    apart = set(groups)
    rest = split([row for row in rows if row.group not in apart], 0)
    test = [row for row in rows if row.group in apart]
    return Split(rest.train + rest.test, rest.validation, test)


def ensemble(fitted: fit.Fitted) -> Ensemble:
    """As radrm will read it, halves for floats and all."""
    return Ensemble.from_bytes(fitted.shapes(), fitted.numbers())


def fit_mlps(rows: Split, edges_mib: tuple[int, ...]) -> fit.Fitted:
    return fit.fitted(
        rows.train, rows.validation, edges_mib, epochs=150, batch=64, noise=0.03, seed=SEED
    )


def fit_others(rows: Split) -> fit.Fitted:
    """With more rows at other batch sizes, from the training rows alone."""
    measured = [row for row in rows.train if row.measured]
    modelled = [row for row in rows.train if not row.measured]
    more = [*data.between(measured, 3, SEED), *data.elsewhere(modelled, 5, SEED)]
    train = [*rows.train, *more]
    return fit.fitted(
        train, rows.validation, STEPS_OF_8_GB, epochs=60, batch=256, noise=0.05, seed=SEED
    )


def everything(rows: Split) -> Split:
    """For what is shipped: all rows to train on, the split's validation rows to stop by."""
    return Split([*rows.train, *rows.validation, *rows.test], rows.validation, [])


def mlps(shipped: bool) -> list[scores.Line]:
    rows = list(data.measured_mlps())
    lines = []
    for name, edges_mib in (("1 GB", MLP_1_GB), ("2 GB", MLP_2_GB)):
        one = split(rows, 0)
        told = scores.told(ensemble(fit_mlps(one, edges_mib)), one.test)
        lines.append(scores.line(f"MLP, {name}", told))
    if shipped:
        _ship(Family.MLP, fit_mlps(everything(split(rows, 0)), MLP_1_GB))
    return lines


def others(family: Family, shipped: bool) -> list[scores.Line]:
    name = {Family.CNN: "CNN", Family.TRANSFORMER: "transformer"}[family]
    random_nets, timm = list(data.modelled(family)), list(data.measured_timm(family))
    of_random: list[scores.Told] = []
    of_families: list[scores.Told] = []
    for turn in range(5):
        nets, families = split(random_nets, turn), split(timm, turn)
        tested = ensemble(fit_others(nets + families))
        of_random += scores.told(tested, nets.test)
        of_families += scores.told(tested, families.test)
    by_model = [replace(row, group=str(row.features.parameters)) for row in timm]
    sisters = split(by_model, 0)
    of_models = scores.told(ensemble(fit_others(split(random_nets, 0) + sisters)), sisters.test)
    apart = without(timm, OF_PUBLISHED_JOBS)
    tested = ensemble(fit_others(split(random_nets, 0) + apart))
    lines = [
        scores.line(f"{name}, random networks", of_random),
        scores.line(f"{name}, unseen families", of_families),
        scores.line(f"{name}, unseen models", of_models),
        *scores.published_lines(name, tested, family),
    ]
    if shipped:
        all_rows = everything(split(random_nets, 0) + split(timm, 0))
        _ship(family, fit_others(all_rows))
    return lines


def _ship(family: Family, fitted: fit.Fitted) -> None:
    fitted.write(WEIGHTS, family.value)
    for path in sorted(WEIGHTS.glob(f"{family.value}.*")):
        print(f"{path.relative_to(REPOSITORY)}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", action="store_true", help="leave the weights alone")
    shipped = not parser.parse_args().tables
    torch.set_num_threads(1)
    sections = {
        "Table 5.3: MLPs": mlps(shipped),
        "Table 5.5: CNNs": others(Family.CNN, shipped),
        "Table 5.7: transformers": others(Family.TRANSFORMER, shipped),
    }
    print(scores.document(sections))


if __name__ == "__main__":
    main()
