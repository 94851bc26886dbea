"""The content of a model summary of any form: typed layers in the order printed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

Shape = tuple[int, ...]


class Form(str, Enum):
    """The program that printed a summary."""

    TORCHSUMMARY = "torchsummary"
    TORCHINFO = "torchinfo"
    KERAS = "keras"
    REPR = "repr"
    """`print(model)`, with or without `, N params` at the end of each line."""


class Layer(Struct, frozen=True):
    """One module. `kind` is its class as printed (`Conv2d`, `BertSdpaSelfAttention`).

    - `shapes`: its outputs for one sample, without the batch dimension; empty if the form
      does not print them. `inputs`: the same of its inputs.
    - `parameters`: its own, without those of the modules inside it.
    - `depth`: the number of modules around it. In flat tables it is always 0, and `leaf` is
      always True: there a container follows the modules inside it.
    - `attributes`: the arguments in a `repr`'s parentheses as text (`in_features` -> `768`).
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
        """Return the elements of all outputs for one sample; 0 if no shape is known."""
        return sum(math.prod(shape) for shape in self.shapes)


class ModelSummary(Struct, frozen=True):
    """One summary. `batch_size` is the one that it was made for; None: any.

    `problems` are lines for the user about parts that could not be read. Nothing is guessed
    for these parts.
    """

    form: Form
    layers: tuple[Layer, ...]
    parameters: int
    trainable: int | None = None
    batch_size: int | None = None
    inputs: tuple[Shape, ...] = ()
    """The input shapes of one sample, if the summary has them."""
    input_mib: float | None = None
    """The size of one sample's input in 32 bits, rounded, if the summary has it."""
    complete: bool = True
    """Whether every layer was read, to the end of the summary."""
    problems: tuple[str, ...] = ()
