"""Families of models: the errors of an estimate are alike within one, and differ between them.

The largest unknown of a transformer is its fragments; of a CNN, the workspaces of its convolutions;
of a CNN with `cudnn.benchmark`, which of cuDNN's algorithms win, and what trying them took.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from radrm.estimators.memory import Convolution


class Family(str, Enum):
    MLP = "MLP"
    CNN = "CNN"
    BENCHMARK = "CNN with cudnn.benchmark"
    TRANSFORMER = "transformer"
    RECURRENT = "recurrent"
    OTHER = "other"

    @property
    def known(self) -> str | None:
        """Its name; None for `OTHER`, whose models need not be alike."""
        return None if self is Family.OTHER else self.value


ATTENTION, RECURRENCE, MATRICES = "attention", "recurrence", "matrix products"
"""The parts of a model that a tracer names."""


def family_of(convolutions: Iterable[Convolution], parts: Iterable[str], benchmark: bool) -> Family:
    """Return the family of a traced model.

    One convolution whose kernel overlaps makes a CNN: its workspace can be the largest part. The
    convolution that cuts an image into patches does not.
    """
    if any(_overlaps(each) for each in convolutions):
        return Family.BENCHMARK if benchmark else Family.CNN
    named = frozenset(parts)
    if ATTENTION in named:
        return Family.TRANSFORMER
    if RECURRENCE in named:
        return Family.RECURRENT
    return Family.MLP if MATRICES in named else Family.OTHER


def _overlaps(layer: Convolution) -> bool:
    strides = (*layer.stride, *(1,) * len(layer.kernel))
    return any(side > stride for side, stride in zip(layer.kernel, strides, strict=False))


def family_named(word: str | None) -> Family:
    """Return the family of this name; `OTHER` for an unknown one."""
    return next((each for each in Family if each.value == word), Family.OTHER)
