"""What a model's summary says, whatever printed it: typed layers, in the order printed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

Shape = tuple[int, ...]


class Form(str, Enum):
    """Who printed it."""

    TORCHSUMMARY = "torchsummary"
    TORCHINFO = "torchinfo"
    KERAS = "keras"
    REPR = "repr"
    """`print(model)`, with or without `, N params` behind each line."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One module. `kind` is its class as printed (`Conv2d`, `BertSdpaSelfAttention`).

    `shapes`: its outputs for one sample, batch dimension cut off; none where the form
    gives none. `parameters`: its own, without those of modules inside it. `depth`: how
    many modules it lies in, 0 throughout in flat tables (where `leaf` says nothing either:
    containers stand behind what they hold). `attributes`: what a `repr`
    says in parentheses (`in_features` -> `768`), as text. `inputs`: where the form
    prints them, else none.
    """

    kind: str
    name: str = ""
    depth: int = 0
    leaf: bool = True
    shapes: tuple[Shape, ...] = ()
    inputs: tuple[Shape, ...] = ()
    parameters: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        """Elements of all outputs for one sample; 0 where no shape is known."""
        return sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A whole summary. `batch_size`: the one it was made for, None when for any.

    `problems`: each thing in it that could not be read, in words for the user, with its
    line number; what depends on it is not guessed.
    """

    form: Form
    layers: tuple[Layer, ...]
    parameters: int
    trainable: int | None = None
    batch_size: int | None = None
    inputs: tuple[Shape, ...] = ()
    """Input shapes of one sample, where the summary tells them."""
    input_mib: float | None = None
    """What the summary says of the size of one sample's input in 32 bits; rounded."""
    complete: bool = True
    """Every layer was read, to the end of the summary."""
    problems: tuple[str, ...] = ()
