"""The operations of a summary that tells shapes, in the order of its rows.

A table does not say what reads what. The rules, each from what PyTorch models do: a layer
reads what the row before made, unless its parameters or its shape say otherwise, and then
the latest tensor that fits; a container's row adds, multiplies or concatenates what its
rows left unread, as the shapes tell. A wrong guess mostly moves the end of a tensor's
life; which tensors are kept for backward depends on the layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from radrm.estimators.overheads import Overheads
from radrm.estimators.summaries.layers import Form, Layer, ModelSummary, Shape
from radrm.estimators.symbolic.kernels import NO_FIT, Fit, borrowed_bytes, convolution_fit
from radrm.estimators.symbolic.kinds import Role, role_of
from radrm.estimators.symbolic.operations import Network, Operation
from radrm.estimators.symbolic.settings import Precision

_LOOK_BACK = 24
"""So many tensors are tried where the last one does not fit."""

_MASK = 1
_INDEX = 8


def network_of(
    summary: ModelSummary, batch: int, precision: Precision, on: Overheads
) -> Network | None:
    """The forward pass of a model for a batch; None where no row tells a shape."""
    rows = list(_in_order_of_their_ends(summary.layers))
    if not any(layer.shapes for layer in rows):
        return None
    builder = _Builder(batch, precision, on, last=summary.form is Form.KERAS)
    builder.begin(summary, rows)
    for row in rows:
        builder.add(row)
    return builder.finish()


def _in_order_of_their_ends(layers: Sequence[Layer]) -> Iterable[Layer]:
    """A tree's containers behind what they hold, as flat tables have them."""
    open_rows: list[Layer] = []
    for layer in layers:
        while open_rows and open_rows[-1].depth >= layer.depth:
            yield open_rows.pop()
        if layer.leaf:
            yield layer
        else:
            open_rows.append(layer)
    yield from reversed(open_rows)


@dataclass(slots=True)
class _Builder:
    batch: int
    precision: Precision
    on: Overheads
    last: bool
    """Channels stand last."""
    network: Network = field(default_factory=Network)
    shapes: list[Shape] = field(default_factory=list)
    """By tensor, for one sample: the shape as last viewed."""
    reads: list[int] = field(default_factory=list)
    """By tensor: how many operations have read it."""
    current: int = 0
    anchors: list[int] = field(default_factory=list)
    """What containers and pools made: what branches and shortcuts begin from."""
    after_norm: bool = False
    """The row before was a norm's."""

    # ------------------------------------------------------------------ tensors

    def begin(self, summary: ModelSummary, rows: Sequence[Layer]) -> None:
        shapes = [shape for shape in summary.inputs if shape] or [_first_input(summary, rows)]
        for shape in shapes:
            self.network.root(self._bytes(shape))
            self.shapes.append(shape)
            self.reads.append(0)
        self.anchors.append(0)

    def _bytes(self, shape: Shape, wide: bool = False) -> int:
        each = self.precision.wide if wide else self.precision.activation
        return math.prod(shape) * self.batch * each

    def _new(self, shape: Shape, wide: bool = False) -> int:
        tensor = self.network.tensor(self._bytes(shape, wide))
        self.shapes.append(shape)
        self.reads.append(0)
        return tensor

    def _put(self, operation: Operation) -> None:
        self.network.operations.append(operation)
        for tensor in operation.inputs:
            self.reads[tensor] += 1
        if operation.output in operation.inputs:
            self.reads[operation.output] -= 1
        self.current = operation.output

    def _recent(self) -> Iterable[int]:
        """The current tensor, then others, the latest first."""
        yield self.current
        newest = len(self.shapes) - 1
        for tensor in range(newest, max(newest - _LOOK_BACK, -1), -1):
            if tensor != self.current:
                yield tensor
        for tensor in self.anchors[-2:]:
            if tensor <= newest - _LOOK_BACK:
                yield tensor

    def _like(self, shape: Shape) -> int:
        """What a layer that keeps its input's shape has read."""
        if self.shapes[self.current] == shape:
            return self.current
        size = math.prod(shape)
        for tensor in self._recent():
            if self.shapes[tensor] == shape or (
                tensor == self.current and math.prod(self.shapes[tensor]) == size
            ):
                return tensor
        self._join(shape)
        return self.current

    def _unread(self) -> list[int]:
        first = max(len(self.reads) - 4 * _LOOK_BACK, 0)
        return [first + at for at, reads in enumerate(self.reads[first:]) if not reads]

    # ------------------------------------------------------------------ rows

    def add(self, row: Layer) -> None:
        if not row.shapes:
            return
        role = role_of(row.kind, row.parameters) if row.leaf else Role.OTHER
        self._dispatch(row, role)
        self.after_norm = role is Role.NORM

    def _dispatch(self, row: Layer, role: Role) -> None:
        shape = row.shapes[0]
        if not shape:
            shape = (1,)
        if role is Role.CONVOLUTION:
            self._convolution(row, shape)
        elif role is Role.LINEAR:
            self._linear(row, shape)
        elif role is Role.VIEW:
            self._view(shape)
        elif role is Role.OTHER or role is Role.JOIN:
            self._container(row, shape)
        elif role is Role.EMBEDDING:
            self._put(
                Operation(
                    (),
                    self._new(shape),
                    extra=(_INDEX * self.batch * math.prod(shape[:-1]),),
                    weights=self._weights(row),
                )
            )
        elif role in (Role.RECURRENT, Role.ATTENTION):
            self._sequence(row, role, shape)
        elif role in (Role.MAX_POOL, Role.POOL, Role.RESIZE):
            self._resampled(role, shape, padded="blur" in row.kind.casefold())
        else:
            self._pointwise(row, role, shape)

    def _weights(self, row: Layer) -> tuple[int, ...]:
        """Bytes of the weights and, where there must be one, the bias."""
        count = row.parameters
        each = self.precision.parameter
        return (count * each,) if count else ()

    def _view(self, shape: Shape) -> None:
        if math.prod(shape) == math.prod(self.shapes[self.current]):
            self.shapes[self.current] = shape
        elif len(shape) <= 2:
            # Pooled to one value a channel, and flattened (timm's SelectAdaptivePool2d).
            self._put(Operation((self.current,), self._new(shape)))

    def _pointwise(self, row: Layer, role: Role, shape: Shape) -> None:
        source = self._like(shape)
        if role is Role.KEEPS_OUTPUT:
            inplace = row.attributes.get("inplace", "True") == "True"
            if inplace and row.kind.casefold() == "relu":
                self._put(Operation((source,), source, saves=(source,)))
            else:
                output = self._new(shape)
                self._put(Operation((source,), output, saves=(output,)))
        elif role is Role.DROPOUT:
            mask = _MASK * self.batch * math.prod(shape)
            self._put(Operation((source,), self._new(shape), extra=(mask,)))
        elif role is Role.NORM:
            statistics = 8 * max(row.parameters // 2, 1)
            self._put(
                Operation(
                    (source,),
                    self._new(shape),
                    saves=(source,),
                    extra=(statistics,),
                    weights=_halves(self._weights(row)),
                )
            )
        else:
            self._put(
                Operation((source,), self._new(shape), saves=(source,), weights=self._weights(row))
            )

    def _resampled(self, role: Role, shape: Shape, padded: bool) -> None:
        source = self._channels_like(shape)
        if padded:
            # A filter over a padded copy, which it keeps.
            copy = (self.network.sizes[source],)
            self._put(Operation((source,), self._new(shape), extra=copy))
            return
        if role is Role.POOL and math.prod(shape[1:] if not self.last else shape[:-1]) == 1:
            self._put(Operation((source,), self._new(shape)))
            return
        if role is Role.POOL and self.shapes[source] == shape:
            self.current = source
        output = self._new(shape)
        if role is Role.MAX_POOL:
            indices = _INDEX * self.batch * math.prod(shape)
            self._put(Operation((source,), output, saves=(source,), extra=(indices,)))
        elif role is Role.POOL:
            self._put(Operation((source,), output, saves=(source,)))
        else:
            self._put(Operation((source,), output))
        self.anchors.append(output)

    def _channels_like(self, shape: Shape) -> int:
        """What a layer that keeps the number of channels has read."""
        channels = self._channels(shape)
        for tensor in self._recent():
            if self._channels(self.shapes[tensor]) == channels:
                return tensor
        return self.current

    def _channels(self, shape: Shape) -> int:
        return (shape[-1] if self.last else shape[0]) if shape else 1

    def _places(self, shape: Shape) -> Shape:
        return shape[:-1] if self.last else shape[1:]

    # ------------------------------------------------------------------ layers with weights

    def _convolution(self, row: Layer, shape: Shape) -> None:
        source, fit, bias = self._source_of(row, shape)
        inputs = self.shapes[source]
        output = self._new(shape)
        operation = Operation(
            (source,), output, saves=(source,), weights=self._split(row.parameters, shape, bias)
        )
        if fit.score and "transpose" not in row.kind.casefold():
            self._borrow(operation, fit, inputs, shape)
        self._put(operation)
        self._autocast(row.parameters)

    def _split(self, parameters: int, shape: Shape, bias: bool) -> tuple[int, ...]:
        each = self.precision.parameter
        outputs = self._channels(shape)
        if bias and parameters > outputs:
            return ((parameters - outputs) * each, outputs * each)
        return (parameters * each,)

    def _source_of(self, row: Layer, shape: Shape) -> tuple[int, Fit, bool]:
        """The input that a convolution has most likely had."""
        outputs, dimensions = self._channels(shape), len(shape) - 1
        best, best_fit, best_bias = self.current, NO_FIT, False
        for tensor in self._recent():
            inputs = self.shapes[tensor]
            if len(inputs) != len(shape):
                continue
            for bias in (False, True):
                fit = convolution_fit(
                    self._channels(inputs), outputs, row.parameters, dimensions, bias
                )
                if fit.score > best_fit.score and self._reachable(inputs, shape, row.kind):
                    best, best_fit, best_bias = tensor, fit, bias
            if best_fit.score == 4:
                break
        return best, best_fit, best_bias

    def _reachable(self, inputs: Shape, outputs: Shape, kind: str) -> bool:
        """A convolution makes an image smaller or leaves it; a transposed one, larger."""
        larger = "transpose" in kind.casefold()
        pairs = zip(self._places(inputs), self._places(outputs), strict=False)
        return all(a <= b + 1 if larger else a + 8 >= b for a, b in pairs)

    def _borrow(self, operation: Operation, fit: Fit, inputs: Shape, shape: Shape) -> None:
        if fit.groups > 1 and fit.groups == self._channels(inputs):
            return
        read, made = self._bytes(inputs), self._bytes(shape)
        borrowed = borrowed_bytes(read, made, fit.area, self.on) if not self.last else 0
        first = operation.inputs[0] in self.network.roots
        operation.forward_workspace = borrowed
        operation.backward_workspaces = (0 if first else borrowed, borrowed)

    def _linear(self, row: Layer, shape: Shape) -> None:
        outputs = shape[-1]
        widths = {
            row.parameters // outputs: False,
            (row.parameters - outputs) // outputs: True,
        }
        source, bias = self.current, row.parameters % outputs == 0
        for tensor in self._recent():
            inputs = self.shapes[tensor]
            for width in {inputs[-1] if inputs else 1, math.prod(inputs)}:
                exact = width * outputs in (row.parameters, row.parameters - outputs)
                if width in widths and exact:
                    source, bias = tensor, width * outputs != row.parameters
                    break
            else:
                continue
            break
        each = self.precision.parameter
        weights = (
            ((row.parameters - outputs) * each, outputs * each)
            if bias and row.parameters > outputs
            else (row.parameters * each,)
        )
        output = self._new(shape)
        self.network.uses_matrix_products = True
        self._put(
            Operation(
                (source,),
                output,
                saves=(source,),
                weights=weights,
                forward_workspace=self.on.cublaslt_bytes if bias else 0,
            )
        )
        self._autocast(row.parameters)

    def _autocast(self, parameters: int) -> None:
        if self.precision.autocast:
            self.network.copied_weights += parameters * self.precision.activation

    def _sequence(self, row: Layer, role: Role, shape: Shape) -> None:
        """Recurrent layers keep their gates, attention its projections and scores."""
        output = self._new(shape)
        kept = self.network.sizes[output]
        times = {"lstm": 6, "gru": 5}.get(row.kind.casefold(), 3)
        extra = [kept * times]
        if role is Role.ATTENTION:
            extra = [kept * 3, *(2 * self._bytes(scores) for scores in row.shapes[1:2])]
        self._put(
            Operation(
                (self.current,),
                output,
                saves=(self.current, output),
                extra=tuple(extra),
                weights=self._weights(row),
            )
        )

    # ------------------------------------------------------------------ containers

    def _container(self, row: Layer, shape: Shape) -> None:
        current = self.shapes[self.current]
        if row.parameters:
            source = self.current
            output = self._new(shape) if current != shape else self.current
            saves = (source,) if output != source else ()
            self._put(Operation((source,), output, saves=saves, weights=self._weights(row)))
        elif current == shape:
            self._sum(shape, alone=_is_one_layer(row.kind))
        elif math.prod(current) == math.prod(shape):
            self.shapes[self.current] = shape
        elif math.prod(current) == self._channels(shape):
            self._scaled(shape)
        else:
            self._join(shape, pooled=row.kind.casefold().startswith("inception"))
        if self.anchors[-1] != self.current:
            self.anchors.append(self.current)

    def _sum(self, shape: Shape, alone: bool) -> None:
        """A shortcut: added in place to what came last, before the activation behind it."""
        parts = [
            tensor
            for tensor in (() if alone else self._unread())
            if tensor != self.current and self.shapes[tensor] == shape
        ]
        if not parts and not alone:
            parts = [
                tensor
                for tensor in self.anchors[-1:]
                if tensor != self.current and self.shapes[tensor] == shape
            ]
        operations = self.network.operations
        if not parts:
            if self.after_norm:
                # `F.relu(x, inplace=True)`, which no row tells.
                self._put(Operation((self.current,), self.current, saves=(self.current,)))
            return
        behind = operations[-1] if operations else None
        if behind is not None and behind.inputs == (behind.output,) and behind.saves:
            operations.pop()
            self._put(Operation((self.current, *parts), self.current, passes=True))
            operations.append(behind)
        else:
            self._put(Operation((self.current, *parts), self.current, passes=True))

    def _scaled(self, shape: Shape) -> None:
        """Squeeze and excitation: a factor for each channel."""
        for tensor in self._recent():
            if self.shapes[tensor] == shape:
                pair = (tensor, self.current)
                temporary = self.network.sizes[tensor]
                self._put(Operation(pair, self._new(shape), saves=pair, temporary=temporary))
                return
        self._join(shape)

    def _join(self, shape: Shape, pooled: bool = False) -> None:
        """What was left unread, side by side; or else something that no row tells.

        `pooled`: one branch of an Inception block begins with a pool that no row tells.
        """
        places = self._places(shape)
        parts = [
            tensor
            for tensor in self._unread()
            if self._places(self.shapes[tensor]) == places and tensor != self.current
        ]
        inputs = (*parts, self.current)
        channels = sum(self._channels(self.shapes[tensor]) for tensor in inputs)
        if channels > self._channels(shape):
            inputs = (self.current,)
        copy = (self.network.sizes[self.anchors[-1]],) if pooled else ()
        self._put(Operation(inputs, self._new(shape), extra=copy))

    def finish(self) -> Network:
        """With the loss: a softmax over what the model gives, kept for its backward pass."""
        self.network.kept = [self.current]
        wide = self._new(self.shapes[self.current], wide=True)
        self._put(Operation((self.network.kept[0],), wide, saves=(wide,)))
        return self.network


def _is_one_layer(kind: str) -> bool:
    """A convolution with its norm and activation in one container: no shortcut in it."""
    kind = kind.casefold()
    return "conv" in kind and not any(word in kind for word in ("block", "mbconv", "next"))


def _halves(weights: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(half for each in weights for half in (each // 2, each - each // 2))


def _first_input(summary: ModelSummary, rows: Sequence[Layer]) -> Shape:
    """The shape of one sample, from the figure that the table gives of its size, else
    from the first layer that has weights."""
    first = next((row for row in rows if row.shapes and row.shapes[0]), None)
    if first is None:
        return (1,)
    shape = first.shapes[0]
    elements = round((summary.input_mib or 0) * 2**20 / 4)
    if len(shape) <= 2:
        if first.parameters and shape[-1]:
            width = max(first.parameters // shape[-1], 1)
            return (*shape[:-1], width)
        return shape
    channels = _channels_of_image(first, shape, summary.form is Form.KERAS)
    places = shape[:-1] if summary.form is Form.KERAS else shape[1:]
    side = math.isqrt(elements // channels) if len(places) == 2 else 0
    if side >= max(places):
        places = (side, side)
    return (*places, channels) if summary.form is Form.KERAS else (channels, *places)


def _channels_of_image(first: Layer, shape: Shape, last: bool) -> int:
    outputs = shape[-1] if last else shape[0]
    for channels in (3, 1, 4, 2):
        for bias in (False, True):
            fit = convolution_fit(channels, outputs, first.parameters, len(shape) - 1, bias)
            if fit.score == 4 and fit.groups == 1 and fit.area > 1:
                return channels
    return 3
