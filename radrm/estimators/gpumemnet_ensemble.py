"""An ensemble of small multilayer perceptrons that names a bucket, in pure Python.

GPUMemNet's estimator (RAD-RM's thesis, section 5.4.4 and figure 5.7a): thirteen networks
of different depth and width look at the same features; the mean of what they say of each
bucket decides. Training them is no matter of this file.
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
    """What `weights/FAMILY.json` says, as training writes it.

    `edges_mib`: the upper edges of all buckets but the last, which is open. `centre` and
    `scale`: a feature x goes in as (x - centre) / scale. `least` and `most`: the range of
    each feature in the training data; a value outside goes in as the nearer end.
    `layers`: the widths of each network, features first, buckets last.
    """

    edges_mib: tuple[int, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    layers: tuple[tuple[int, ...], ...]


_Layer = tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]
"""Weights neuron by neuron, and biases."""


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
        """The ensemble in `folder`: shapes in `name`.json, weights in `name`.f16."""
        shapes = msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Shapes)
        return Ensemble.of(shapes, (folder / f"{name}.f16").read_bytes())

    @staticmethod
    def of(shapes: Shapes, data: bytes) -> Ensemble:
        """An ensemble from its shapes and its weights.

        `data`: network by network and layer by layer, for each neuron its weights, then the
        layer's biases; half-precision floats, little-endian. Raises ValueError when their
        number does not match the layers.
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
        """Whether one of these features is larger than any that was trained on."""
        return any(features[i] > self.most[i] for i in which)

    def probabilities(self, features: Sequence[float]) -> tuple[float, ...]:
        """What share of belief each bucket has; they add up to 1."""
        within = map(min, map(max, features, self.least), self.most)
        scaled = [
            (value - centre) / scale
            for value, centre, scale in zip(within, self.centre, self.scale, strict=True)
        ]
        told = [_softmax(_forward(network, scaled)) for network in self.networks]
        return tuple(sum(bucket) / len(told) for bucket in zip(*told, strict=True))

    def bucket(self, features: Sequence[float]) -> int:
        """The likeliest bucket, counted from 0."""
        told = self.probabilities(features)
        return told.index(max(told))


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
