"""The tensors that the rows of a table make, and the tensor that a row most likely reads.

A table does not show which layer reads which tensor. The rows have the order in which the
layers run, so a row reads the newest tensor that fits its shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from radrm.estimators.memory.overheads import Overheads
from radrm.estimators.summaries.layers import Layer, Shape
from radrm.estimators.symbolic.operations import Network, Operation
from radrm.estimators.symbolic.settings import Precision

_LOOK_BACK = 24
"""The number of tensors that are tried if the last one does not fit."""


@dataclass(slots=True)
class RowTensors:
    batch: int
    precision: Precision
    on: Overheads
    last: bool
    """The channels are the last dimension (Keras)."""
    network: Network = field(default_factory=Network)
    shapes: list[Shape] = field(default_factory=list)
    """The shape of each tensor for one sample, as last viewed."""
    reads: list[int] = field(default_factory=list)
    """How many operations have read each tensor."""
    current: int = 0
    anchors: list[int] = field(default_factory=list)
    """The tensors that containers and pools made: branches and shortcuts begin there."""
    after_norm: bool = False
    """The row before was a norm."""

    def root(self, shape: Shape) -> None:
        """Add an input of the model."""
        self.network.root(self.bytes_of(shape))
        self.shapes.append(shape)
        self.reads.append(0)

    def bytes_of(self, shape: Shape, wide: bool = False) -> int:
        each = self.precision.wide if wide else self.precision.activation
        return math.prod(shape) * self.batch * each

    def new(self, shape: Shape, wide: bool = False) -> int:
        tensor = self.network.tensor(self.bytes_of(shape, wide))
        self.shapes.append(shape)
        self.reads.append(0)
        return tensor

    def put(self, operation: Operation) -> None:
        self.network.operations.append(operation)
        for tensor in operation.inputs:
            self.reads[tensor] += 1
        if operation.output in operation.inputs:
            self.reads[operation.output] -= 1
        self.current = operation.output

    def recent(self) -> Iterable[int]:
        """Yield the current tensor, then others, the newest first."""
        yield self.current
        newest = len(self.shapes) - 1
        for tensor in range(newest, max(newest - _LOOK_BACK, -1), -1):
            if tensor != self.current:
                yield tensor
        for tensor in self.anchors[-2:]:
            if tensor <= newest - _LOOK_BACK:
                yield tensor

    def like(self, shape: Shape) -> int:
        """Return the input of a layer whose output has this shape, which is its input's, too."""
        if self.shapes[self.current] == shape:
            return self.current
        size = math.prod(shape)
        for tensor in self.recent():
            if self.shapes[tensor] == shape or (
                tensor == self.current and math.prod(self.shapes[tensor]) == size
            ):
                return tensor
        self.join(shape)
        return self.current

    def channels_like(self, shape: Shape) -> int:
        """Return the input of a layer that keeps the number of channels."""
        channels = self.channels(shape)
        for tensor in self.recent():
            if self.channels(self.shapes[tensor]) == channels:
                return tensor
        return self.current

    def unread(self) -> list[int]:
        first = max(len(self.reads) - 4 * _LOOK_BACK, 0)
        return [first + at for at, reads in enumerate(self.reads[first:]) if not reads]

    def channels(self, shape: Shape) -> int:
        return (shape[-1] if self.last else shape[0]) if shape else 1

    def places(self, shape: Shape) -> Shape:
        return shape[:-1] if self.last else shape[1:]

    def join(self, shape: Shape, pooled: bool = False) -> None:
        """Join the unread tensors, or else make a tensor that no row explains.

        `pooled`: one branch of an Inception block begins with a pool that has no row.
        """
        places = self.places(shape)
        parts = [
            tensor
            for tensor in self.unread()
            if self.places(self.shapes[tensor]) == places and tensor != self.current
        ]
        inputs = (*parts, self.current)
        channels = sum(self.channels(self.shapes[tensor]) for tensor in inputs)
        if channels > self.channels(shape):
            inputs = (self.current,)
        copy = (self.network.sizes[self.anchors[-1]],) if pooled else ()
        self.put(Operation(inputs, self.new(shape), extra=copy))

    def weights(self, row: Layer) -> tuple[int, ...]:
        """Return the bytes of a layer's parameters."""
        count = row.parameters
        each = self.precision.parameter
        return (count * each,) if count else ()
