"""Fitting one ensemble to rows, and writing it down.

Thirteen perceptrons of one to seven and of one to six hidden layers, as in the thesis
(section 5.4.4). Each is fitted with Adam to the cross entropy with soft labels: a job
whose memory lies near a bucket's edge belongs a little to the neighbour, as far as a
second measurement would move it. The epoch that is best on the validation rows is kept.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.gpumemnet.data import Row
from radrm.estimators.gpumemnet.estimator import Shapes

WIDTHS = (40, 36, 32, 28, 24, 24, 20)
HIDDEN = tuple(WIDTHS[:depth] for depth in range(1, 8)) + tuple(
    (48, 32, 24, 20, 16, 16)[:depth] for depth in range(1, 7)
)
"""The hidden layers of the thirteen."""


@dataclass(frozen=True, slots=True)
class Fitted:
    edges_mib: tuple[int, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    networks: tuple[nn.Sequential, ...]

    def shapes(self) -> Shapes:
        return Shapes(
            edges_mib=self.edges_mib,
            centre=_rounded(self.centre),
            scale=_rounded(self.scale),
            least=_rounded(self.least),
            most=_rounded(self.most),
            layers=tuple(_widths(network) for network in self.networks),
        )

    def numbers(self) -> bytes:
        """The weights as `Ensemble.from_bytes` takes them."""
        return b"".join(
            tensor.detach().numpy().astype("<f2").tobytes()
            for network in self.networks
            for tensor in network.parameters()
        )

    def write(self, folder: Path, name: str) -> None:
        """Write the two files that `Ensemble.read` reads."""
        text = ",\n".join(
            f'  "{key}": {_json(value)}' for key, value in asdict(self.shapes()).items()
        )
        (folder / f"{name}.json").write_text(f"{{\n{text}\n}}\n")
        (folder / f"{name}.f16").write_bytes(self.numbers())


def fitted(
    rows: Sequence[Row],
    validation: Sequence[Row],
    edges_mib: tuple[int, ...],
    *,
    epochs: int,
    batch: int,
    noise: float,
    seed: int,
) -> Fitted:
    """An ensemble for these rows. `noise`: by what part of itself a label may be off."""
    torch.manual_seed(seed)
    raw = np.array([row.features.vector() for row in rows])
    centre, scale = raw.mean(0), np.maximum(raw.std(0), 1e-3)
    centre, scale = np.round(centre, 6), np.round(scale, 6)

    def prepared(some: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
        x = (np.array([row.features.vector() for row in some]) - centre) / scale
        y = np.array([soft_label(row.memory_mib, edges_mib, noise) for row in some])
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    train, held = prepared(rows), prepared(validation)
    networks = tuple(
        _fit_network((raw.shape[1], *hidden, len(edges_mib) + 1), train, held, epochs, batch)
        for hidden in HIDDEN
    )
    return Fitted(
        edges_mib=edges_mib,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        least=tuple(raw.min(0).tolist()),
        most=tuple(raw.max(0).tolist()),
        networks=networks,
    )


def bucket_of(memory_mib: float, edges_mib: Sequence[int]) -> int:
    """The bucket from 0 on; an edge belongs to the bucket above it."""
    return bisect_right(edges_mib, memory_mib)


def soft_label(memory_mib: float, edges_mib: Sequence[int], noise: float) -> list[float]:
    """How likely another measurement of this job would lie in each bucket."""
    below = [
        0.5 * (1 + math.erf(math.log(edge / memory_mib) / noise / math.sqrt(2)))
        for edge in edges_mib
    ]
    bounds = [0.0, *below, 1.0]
    return [high - low for low, high in pairwise(bounds)]


def _fit_network(
    widths: Sequence[int],
    train: tuple[torch.Tensor, torch.Tensor],
    held: tuple[torch.Tensor, torch.Tensor],
    epochs: int,
    batch: int,
) -> nn.Sequential:
    network = network_of(widths)
    rate = 3e-3 * math.sqrt(batch / 64)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-3)
    steps = epochs * math.ceil(len(train[0]) / batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    best, best_loss = [p.detach().clone() for p in network.parameters()], math.inf
    for _ in range(epochs):
        order = torch.randperm(len(train[0]))
        for at in range(0, len(order), batch):
            chosen = order[at : at + batch]
            loss = _loss(network(train[0][chosen]), train[1][chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            held_loss = _loss(network(held[0]), held[1]).item()
        if held_loss < best_loss:
            best_loss = held_loss
            best = [p.detach().clone() for p in network.parameters()]
    with torch.no_grad():
        for parameter, kept in zip(network.parameters(), best, strict=True):
            parameter.copy_(kept)
    return network


def _loss(told: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return -(wanted * torch.log_softmax(told, 1)).sum(1).mean()


def network_of(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers of these widths, with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _widths(network: nn.Sequential) -> tuple[int, ...]:
    linears = [layer for layer in network if isinstance(layer, nn.Linear)]
    return (linears[0].in_features, *(linear.out_features for linear in linears))


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in values)


def _json(value: Any) -> str:
    """One line, or a line for each network."""
    if not isinstance(value[0], tuple):
        return json.dumps(value)
    return "[\n    " + ",\n    ".join(map(json.dumps, value)) + "\n  ]"
