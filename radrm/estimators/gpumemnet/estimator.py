"""GPUMemNet: small networks choose a bucket of memory from the features of a model."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import mul
from pathlib import Path

import msgspec
from msgspec import Struct

from radrm.core.records import Estimate
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.gpumemnet.features import GROWING, Family, Features, features_of
from radrm.estimators.interface import Description
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import BadSummary

# ------------------------------------------------------------------
# An ensemble of small multilayer perceptrons that chooses a bucket, in pure Python.
#
# GPUMemNet (RAD-RM's thesis, section 5.4.4 and figure 5.7a) has thirteen networks of different
# depth and width with the same input. The mean of their probabilities decides. The training
# is in `benchmarks/gpumemnet/`.


_HALF_BYTES = 2


class Shapes(Struct, frozen=True):
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


class Ensemble(Struct, frozen=True):
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


WEIGHTS = Path(__file__).with_name("weights")
"""The trained networks, two files for each family (`Ensemble.read`)."""


@dataclass(frozen=True, slots=True)
class GPUMemNet:
    """RAD-RM's thesis, chapter 5: an ensemble for MLPs, one for CNNs, one for transformers.

    Value and upper bound are the upper edge of the most likely bucket, in MiB. Buckets are
    1 GB wide for MLPs and 8 GB for the others (8000, 16000 and so on, as in the figures
    published with the prototype's jobs). The last bucket means a whole device. The weights
    are radrm's own: docs/lab/gpumemnet.md describes their training data and accuracy.

    A prototype job file's own GPUMemNet line comes first. There is no estimate without a
    batch size or a summary with the features (`features_of`). There is none for a model with
    more parameters, or more activations in a batch, than any in the training data.
    """

    name: str = "gpumemnet"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        memory_mib = job.published.get("gpumemnet")
        if memory_mib is None:
            memory_mib = _from_summary(job)
        if memory_mib is None:
            return ()
        of_summary = job.batch_size is None and self.name not in job.published
        guesses = ("batch size: the model summary's own",) if of_summary else ()
        return (Estimate(Quantity.MEMORY, memory_mib, memory_mib, self.name, guesses=guesses),)


def _from_summary(job: Description) -> float | None:
    if job.summary is None:
        return None
    try:
        summary = read_summary(job.summary, job.batch_size)
    except BadSummary:
        return None
    batch_size = summary.batch_size
    if batch_size is None:
        return None
    if summary.layers[0].kind == "DataParallel":
        batch_size = -(-batch_size // max(job.spec.roles[0].needs.gpus, 1))
    features = features_of(summary, batch_size, job.sequence_length)
    return bucket_edge_mib(features) if features is not None else None


def bucket_edge_mib(features: Features) -> float | None:
    """Return the upper edge of the most likely bucket. None: beyond the training data."""
    ensemble, vector = _ensemble(features.family), features.vector()
    if ensemble.is_beyond(vector, GROWING):
        return None
    edges = (*map(float, ensemble.edges_mib), float(WHOLE_DEVICE_MIB))
    return edges[ensemble.bucket(vector)]


@lru_cache(maxsize=len(Family))
def _ensemble(family: Family) -> Ensemble:
    """Read a family's networks once, at its first job: that takes some milliseconds."""
    return Ensemble.read(WEIGHTS, family.value)
