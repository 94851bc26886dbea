"""The thesis's other estimator: a transformer over the layers (section 5.4.4, Figure 5.7b).

    python -m benchmarks.gpumemnet.series mlp
    python -m benchmarks.gpumemnet.series cnn --turns 5

A layer is a token: its kind, the logarithms of its activations and parameters. Two encoder layers
read them; their mean, beside the features of the other estimator, goes into the same thirteen
perceptrons. Tested as that one (`train`), on the second rows of Tables 5.3, 5.5 and 5.7. The sizes
of the encoder are ours: the thesis gives none. TIMM's models are left out: their table has no
layers. radrm does not ship it.
"""

from __future__ import annotations

import argparse
import ast
import csv
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from benchmarks.gpumemnet import data, fit, nets, scores, train
from benchmarks.gpumemnet.data import Row
from benchmarks.gpumemnet.summaries import summary_of
from radrm.estimators.gpumemnet.features import Family

Series = tuple[tuple[str, int, int], ...]
"""Kind, activations of a sample and parameters of each layer."""

_WIDTH, _HEADS, _LAYERS = 32, 4, 2
_THESIS = {
    "MLP, 1 GB": (0.9673, 0.9599, 0.9634),
    "MLP, 2 GB": (0.9804, 0.9707, 0.9755),
    "CNN": (0.8449, 0.8443, 0.8431),
    "transformer": (0.8650, 0.8650, 0.8596),
}


def mlp_series() -> dict[str, Series]:
    """The layers of each measured MLP, by its group."""
    with data.MLP_MEASURED.open() as file:
        return {
            row["Filename"]: tuple(ast.literal_eval(row["Activations-Params"]))
            for row in csv.DictReader(file)
        }


def random_series(family: Family, rows: Iterable[Row]) -> dict[str, Series]:
    """The layers of each random network, drawn anew from its seed."""
    found = {}
    for row in rows:
        with torch.device("meta"):
            model, shape, _ = nets.network(family.value, int(row.group.rpartition("-")[2]))
            dtype = torch.float32 if family is Family.CNN else torch.long
            summary = summary_of(model.train(), torch.empty(2, *shape, dtype=dtype))
        found[row.group] = tuple(
            (each.kind, each.elements, each.parameters) for each in summary.layers
        )
    return found


class Encoder(nn.Module):
    """Returns log probabilities of the buckets, the mean of the thirteen perceptrons'."""

    def __init__(self, kinds: int, features: int, buckets: int) -> None:
        super().__init__()
        self.kind = nn.Embedding(kinds + 1, _WIDTH, padding_idx=0)
        self.sizes = nn.Linear(2, _WIDTH)
        layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, 2 * _WIDTH, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.heads = nn.ModuleList(
            fit.network_of((_WIDTH + features, *hidden, buckets)) for hidden in fit.HIDDEN
        )

    def forward(self, kinds: torch.Tensor, sizes: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        none = kinds == 0
        made = self.encoder(self.kind(kinds) + self.sizes(sizes), src_key_padding_mask=none)
        there = (~none).unsqueeze(2)
        mean = (made * there).sum(1) / there.sum(1)
        joined = torch.cat((mean, x), 1)
        told = torch.stack([torch.log_softmax(head(joined), 1) for head in self.heads])
        return told.mean(0)


class Prepared:
    """Rows as tensors. Rows that differ from their network in parameters have larger layers."""

    def __init__(self, series: Mapping[str, Series], rows: Sequence[Row]) -> None:
        self.series = series
        names = sorted({kind for each in series.values() for kind, _, _ in each})
        self.numbers = {name: at for at, name in enumerate(names, start=1)}
        self.own = {row.group: row.features.parameters for row in rows}
        raw = np.array([row.features.vector() for row in rows])
        self.centre, self.scale = raw.mean(0), np.maximum(raw.std(0), 1e-3)

    def tensors(self, rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        longest = max(len(self.series[row.group]) for row in rows)
        kinds = torch.zeros(len(rows), longest, dtype=torch.long)
        sizes = torch.zeros(len(rows), longest, 2)
        for at, row in enumerate(rows):
            grown = row.features.parameters / max(self.own[row.group], 1)
            layers = self.series[row.group]
            kinds[at, : len(layers)] = torch.tensor([self.numbers[kind] for kind, _, _ in layers])
            sizes[at, : len(layers)] = torch.tensor(
                [[math.log1p(a) / 8 - 1, math.log1p(p * grown) / 8 - 1] for _, a, p in layers]
            )
        x = (np.array([row.features.vector() for row in rows]) - self.centre) / self.scale
        return kinds, sizes, torch.tensor(x, dtype=torch.float32)


def tested(
    series: Mapping[str, Series], rows: train.Split, edges: tuple[int, ...], epochs: int, more: bool
) -> list[scores.Told]:
    """Fit to the training rows, keep the epoch that is best on the validation rows, and test.

    `more`: with rows at other batch sizes, as the other estimator has them.
    """
    torch.manual_seed(train.SEED)
    known = [*rows.train, *rows.validation, *rows.test]
    prepared, noise = Prepared(series, known), 0.05 if more else 0.03
    extra = list(data.elsewhere(rows.train, 5, train.SEED)) if more else []
    # Alike long ones together: little is padded.
    trained = sorted([*rows.train, *extra], key=lambda row: len(series[row.group]))
    model = Encoder(len(prepared.numbers), len(prepared.centre), len(edges) + 1)
    batches = [trained[at : at + 64] for at in range(0, len(trained), 64)]
    made = [(prepared.tensors(batch), _wanted(batch, edges, noise)) for batch in batches]
    held, held_wanted = prepared.tensors(rows.validation), _wanted(rows.validation, edges, noise)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * len(made))
    best, best_loss = model.state_dict(), math.inf
    for _ in range(epochs):
        model.train()
        for at in torch.randperm(len(made)).tolist():
            given, wanted = made[at]
            loss = -(wanted * model(*given)).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            held_loss = -(held_wanted * model(*held)).sum(1).mean().item()
        if held_loss < best_loss:
            best, best_loss = {k: v.clone() for k, v in model.state_dict().items()}, held_loss
    model.load_state_dict(best)
    within = [row for row in rows.test if row.memory_mib <= scores.LARGEST_MEASURED_MIB]
    with torch.no_grad():
        named = model(*prepared.tensors(within)).argmax(1).tolist()
    return [(n, fit.bucket_of(row.memory_mib, edges)) for n, row in zip(named, within, strict=True)]


def _wanted(rows: Sequence[Row], edges: tuple[int, ...], noise: float) -> torch.Tensor:
    return torch.tensor([fit.soft_label(row.memory_mib, edges, noise) for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=("mlp", "cnn", "transformer"))
    parser.add_argument("--turns", type=int, default=1, help="of five, each tests another fifth")
    parser.add_argument("--epochs", type=int, default=40)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.family == "mlp":
        rows, series = list(data.measured_mlps()), mlp_series()
        for name, edges in (("MLP, 1 GB", train.MLP_1_GB), ("MLP, 2 GB", train.MLP_2_GB)):
            _say(name, tested(series, train.split(rows, 0), edges, asked.epochs, False))
        return
    family = Family(asked.family)
    rows = list(data.modelled(family))
    series = random_series(family, rows)
    told: list[scores.Told] = []
    for turn in range(asked.turns):
        one = train.split(rows, turn)
        told += tested(series, one, train.STEPS_OF_8_GB, asked.epochs, True)
    _say("CNN" if family is Family.CNN else "transformer", told)


def _say(name: str, told: Sequence[scores.Told]) -> None:
    line = scores.line(name, told)
    ours = f"{line.accuracy:.4f} | {line.precision:.4f} | {line.f1:.4f}"
    thesis = " | ".join(f"{each:.4f}" for each in _THESIS[name])
    print(f"| {name}, by a transformer | {line.rows} | {ours} |", flush=True)
    print(f"| thesis: {name}, by a transformer | | {thesis} |", flush=True)


if __name__ == "__main__":
    main()
