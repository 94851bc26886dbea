"""The features of the TIMM models whose training memory has been measured.

    python -m benchmarks.gpumemnet.timm_models

Writes `data/timm_features.csv` here: features only. The measurements stay where they
are. Models are built on the meta device: no weights, no download.
"""

from __future__ import annotations

import contextlib
import csv
import sys

import timm
import torch

from benchmarks.gpumemnet.data import TIMM_FEATURES, TIMM_MEASURED, write_features
from benchmarks.gpumemnet.summaries import summary_of
from radrm.estimators.gpumemnet.features import Features, features_of


def main() -> None:
    with TIMM_MEASURED.open() as file:
        names = sorted({row["model"] for row in csv.DictReader(file)})
    found: dict[str, Features] = {}
    for name in names:
        try:
            features = features_of_model(name)
        except Exception as error:
            print(f"{name}: left out: {type(error).__name__}: {error}"[:200], file=sys.stderr)
            continue
        if features is None:
            print(f"{name}: left out: no features", file=sys.stderr)
            continue
        found[name] = features
    write_features(TIMM_FEATURES, found)
    print(f"{TIMM_FEATURES}: {len(found)} of {len(names)} models")


def features_of_model(name: str) -> Features | None:
    with torch.device("meta"):
        model = timm.create_model(name)
    size = model.default_cfg["input_size"]
    return features_of(summary_of(model.train(), torch.empty(2, *size, device="meta")), 1)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
