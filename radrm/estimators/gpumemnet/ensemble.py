"""An ensemble of small multilayer perceptrons that chooses a bucket, in pure Python.

GPUMemNet (RAD-RM's thesis, section 5.4.4 and figure 5.7a) has thirteen networks of different
depth and width with the same input. The mean of their probabilities decides. The training
is in `benchmarks/gpumemnet/`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from pathlib import Path

import msgspec

_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Shapes:
    """The content of `weights/FAMILY.json`, which the training writes.

    `edges_mib` are the upper edges of all buckets but the last, which is open. A feature x
    becomes (x - `centre`) / `scale`. `least` and `most` are its range in the training data; a
    value outside becomes the nearer end. `layers` are the widths of each network, from the
    features to the buckets.
    """

    edges_mib: tuple[int, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    layers: tuple[tuple[int, ...], ...]


_Layer = tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]
"""The weights of each neuron, and the biases."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    edges_mib: tuple[int, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    networks: tuple[tuple[_Layer, ...], ...]

    @staticmethod
    def read(folder: Path, name: str) -> Ensemble:
        """Read the ensemble from `name`.json (shapes) and `name`.f16 (weights) in `folder`."""
        shapes = msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Shapes)
        return Ensemble.from_bytes(shapes, (folder / f"{name}.f16").read_bytes())

    @staticmethod
    def from_bytes(shapes: Shapes, data: bytes) -> Ensemble:
        """Make an ensemble from its shapes and weights.

        `data` holds, for each network and layer, the weights of each neuron, then the layer's
        biases, as little-endian half-precision floats. Raises ValueError if their number does
        not match the layers.
        """
        wanted = sum(
            (inputs + 1) * outputs
            for widths in shapes.layers
            for inputs, outputs in pairwise(widths)
        )
        if len(data) != _HALF_BYTES * wanted:
            raise ValueError(f"{len(data)} bytes of weights where {_HALF_BYTES * wanted} belong")
        numbers = struct.unpack(f"<{wanted}e", data)
        networks, at = [], 0
        for widths in shapes.layers:
            network: list[_Layer] = []
            for inputs, outputs in pairwise(widths):
                biases_at = at + inputs * outputs
                rows = tuple(numbers[i : i + inputs] for i in range(at, biases_at, inputs))
                at = biases_at + outputs
                network.append((rows, numbers[biases_at:at]))
            networks.append(tuple(network))
        return Ensemble(
            edges_mib=shapes.edges_mib,
            centre=shapes.centre,
            scale=shapes.scale,
            least=shapes.least,
            most=shapes.most,
            networks=tuple(networks),
        )

    def is_beyond(self, features: Sequence[float], which: Sequence[int]) -> bool:
        """Return whether one of these features is larger than all in the training data."""
        return any(features[i] > self.most[i] for i in which)

    def probabilities(self, features: Sequence[float]) -> tuple[float, ...]:
        """Return the probability of each bucket; their sum is 1."""
        within = map(min, map(max, features, self.least), self.most)
        scaled = [
            (value - centre) / scale
            for value, centre, scale in zip(within, self.centre, self.scale, strict=True)
        ]
        answers = [_softmax(_forward(network, scaled)) for network in self.networks]
        return tuple(sum(bucket) / len(answers) for bucket in zip(*answers, strict=True))

    def bucket(self, features: Sequence[float]) -> int:
        """Return the most likely bucket, counted from 0."""
        found = self.probabilities(features)
        return found.index(max(found))


def _forward(network: Sequence[_Layer], values: list[float]) -> list[float]:
    *hidden, last = network
    for rows, biases in hidden:
        values = [
            max(sum(map(mul, row, values), bias), 0.0)
            for row, bias in zip(rows, biases, strict=True)
        ]
    rows, biases = last
    return [sum(map(mul, row, values), bias) for row, bias in zip(rows, biases, strict=True)]


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    raised = [math.exp(value - top) for value in values]
    whole = sum(raised)
    return [value / whole for value in raised]
