"""The operations of a summary with shapes, in the order of its rows.

A table does not show which layer reads which tensor. Three rules from PyTorch models decide:
- A layer reads the output of the row before.
- If its parameters or its shape do not fit that, it reads the newest tensor that fits.
- A container adds, multiplies or concatenates what its layers left unread, as the shapes
  require.
A wrong choice mostly moves the end of a tensor's life. Which tensors are kept for the
backward pass depends on the layers alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from radrm.estimators.memory import Overheads
from radrm.estimators.summaries.layers import Form, Layer, ModelSummary, Shape
from radrm.estimators.symbolic.operations import (
    NO_FIT,
    Fit,
    Network,
    Operation,
    Precision,
    Role,
    borrowed_bytes,
    convolution_fit,
    role_of,
)

# ------------------------------------------------------------------
# The tensors that the rows of a table make, and the tensor that a row most likely reads.
#
# A table does not show which layer reads which tensor. The rows have the order in which the
# layers run, so a row reads the newest tensor that fits its shape.


_LOOK_BACK = 24
"""The number of tensors that are tried if the last one does not fit."""


class RowTensors(Struct):
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


# ------------------------------------------------------------------
# Rows of layers without matrices: activations, norms, dropout, pools, views, embeddings.


_MASK = 1
_INDEX = 8
"""Bytes of an element of a dropout mask, and of an index."""


def add_embedding(made: RowTensors, row: Layer, shape: Shape) -> None:
    index = _INDEX * made.batch * math.prod(shape[:-1])
    made.put(Operation((), made.new(shape), extra=(index,), weights=made.weights(row)))


def add_view(made: RowTensors, shape: Shape) -> None:
    if math.prod(shape) == math.prod(made.shapes[made.current]):
        made.shapes[made.current] = shape
    elif len(shape) <= 2:
        # Pooled to one value a channel, and flattened (timm's SelectAdaptivePool2d).
        made.put(Operation((made.current,), made.new(shape)))


def add_pointwise(made: RowTensors, row: Layer, role: Role, shape: Shape) -> None:
    source = made.like(shape)
    if role is Role.KEEPS_OUTPUT:
        inplace = row.attributes.get("inplace", "True") == "True"
        if inplace and row.kind.casefold() == "relu":
            made.put(Operation((source,), source, saves=(source,)))
        else:
            output = made.new(shape)
            made.put(Operation((source,), output, saves=(output,)))
    elif role is Role.DROPOUT:
        mask = _MASK * made.batch * math.prod(shape)
        made.put(Operation((source,), made.new(shape), extra=(mask,)))
    elif role is Role.NORM:
        statistics = 8 * max(row.parameters // 2, 1)
        made.put(
            Operation(
                (source,),
                made.new(shape),
                saves=(source,),
                extra=(statistics,),
                weights=_halves(made.weights(row)),
            )
        )
    else:
        made.put(Operation((source,), made.new(shape), saves=(source,), weights=made.weights(row)))


def add_resampled(made: RowTensors, role: Role, shape: Shape, padded: bool) -> None:
    source = made.channels_like(shape)
    if padded:
        # The filter reads a padded copy of its input, and keeps it.
        copy = (made.network.sizes[source],)
        made.put(Operation((source,), made.new(shape), extra=copy))
        return
    if role is Role.POOL and math.prod(shape[1:] if not made.last else shape[:-1]) == 1:
        made.put(Operation((source,), made.new(shape)))
        return
    if role is Role.POOL and made.shapes[source] == shape:
        made.current = source
    output = made.new(shape)
    if role is Role.MAX_POOL:
        indices = _INDEX * made.batch * math.prod(shape)
        made.put(Operation((source,), output, saves=(source,), extra=(indices,)))
    elif role is Role.POOL:
        made.put(Operation((source,), output, saves=(source,)))
    else:
        made.put(Operation((source,), output))
    made.anchors.append(output)


def _halves(weights: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(half for each in weights for half in (each // 2, each - each // 2))


# ------------------------------------------------------------------
# Rows of layers with matrices: convolutions, linear layers, recurrent ones and attention.
#
# The parameters of a row limit the sizes of its input, so its input is found by them.


def add_convolution(made: RowTensors, row: Layer, shape: Shape) -> None:
    source, fit, bias = _source_of(made, row, shape)
    inputs = made.shapes[source]
    output = made.new(shape)
    operation = Operation(
        (source,), output, saves=(source,), weights=_split(made, row.parameters, shape, bias)
    )
    if fit.score and "transpose" not in row.kind.casefold():
        _borrow(made, operation, fit, inputs, shape)
    made.put(operation)
    _autocast(made, row.parameters)


def _split(made: RowTensors, parameters: int, shape: Shape, bias: bool) -> tuple[int, ...]:
    each = made.precision.parameter
    outputs = made.channels(shape)
    if bias and parameters > outputs:
        return ((parameters - outputs) * each, outputs * each)
    return (parameters * each,)


def _source_of(made: RowTensors, row: Layer, shape: Shape) -> tuple[int, Fit, bool]:
    """Return a convolution's most likely input, how well it fits, and whether it has a bias."""
    outputs, dimensions = made.channels(shape), len(shape) - 1
    best, best_fit, best_bias = made.current, NO_FIT, False
    for tensor in made.recent():
        inputs = made.shapes[tensor]
        if len(inputs) != len(shape):
            continue
        for bias in (False, True):
            fit = convolution_fit(made.channels(inputs), outputs, row.parameters, dimensions, bias)
            if fit.score > best_fit.score and _reachable(made, inputs, shape, row.kind):
                best, best_fit, best_bias = tensor, fit, bias
        if best_fit.score == 4:
            break
    return best, best_fit, best_bias


def _reachable(made: RowTensors, inputs: Shape, outputs: Shape, kind: str) -> bool:
    """Return whether the sizes fit: the output is not larger, of a transposed one not smaller."""
    larger = "transpose" in kind.casefold()
    pairs = zip(made.places(inputs), made.places(outputs), strict=False)
    return all(a <= b + 1 if larger else a + 8 >= b for a, b in pairs)


def _borrow(made: RowTensors, operation: Operation, fit: Fit, inputs: Shape, shape: Shape) -> None:
    if fit.groups > 1 and fit.groups == made.channels(inputs):
        return
    read, written = made.bytes_of(inputs), made.bytes_of(shape)
    borrowed = borrowed_bytes(read, written, fit.area, made.on) if not made.last else 0
    first = operation.inputs[0] in made.network.roots
    operation.forward_workspace = borrowed
    operation.backward_workspaces = (0 if first else borrowed, borrowed)


def add_linear(made: RowTensors, row: Layer, shape: Shape) -> None:
    outputs = shape[-1]
    widths = {
        row.parameters // outputs: False,
        (row.parameters - outputs) // outputs: True,
    }
    source, bias = made.current, row.parameters % outputs == 0
    for tensor in made.recent():
        inputs = made.shapes[tensor]
        for width in {inputs[-1] if inputs else 1, math.prod(inputs)}:
            exact = width * outputs in (row.parameters, row.parameters - outputs)
            if width in widths and exact:
                source, bias = tensor, width * outputs != row.parameters
                break
        else:
            continue
        break
    each = made.precision.parameter
    weights = (
        ((row.parameters - outputs) * each, outputs * each)
        if bias and row.parameters > outputs
        else (row.parameters * each,)
    )
    output = made.new(shape)
    made.network.uses_matrix_products = True
    made.put(
        Operation(
            (source,),
            output,
            saves=(source,),
            weights=weights,
            forward_workspace=made.on.cublaslt_bytes if bias else 0,
        )
    )
    _autocast(made, row.parameters)


def _autocast(made: RowTensors, parameters: int) -> None:
    if made.precision.autocast:
        made.network.copied_weights += parameters * made.precision.activation


def add_sequence(made: RowTensors, row: Layer, role: Role, shape: Shape) -> None:
    """Add a layer over a sequence: recurrent ones keep gates, attention projections and scores."""
    output = made.new(shape)
    kept = made.network.sizes[output]
    times = {"lstm": 6, "gru": 5}.get(row.kind.casefold(), 3)
    extra = [kept * times]
    if role is Role.ATTENTION:
        extra = [kept * 3, *(2 * made.bytes_of(scores) for scores in row.shapes[1:2])]
    made.put(
        Operation(
            (made.current,),
            output,
            saves=(made.current, output),
            extra=tuple(extra),
            weights=made.weights(row),
        )
    )


# ------------------------------------------------------------------
# Rows of containers: they add, multiply or concatenate what their layers left unread.


def add_container(made: RowTensors, row: Layer, shape: Shape) -> None:
    current = made.shapes[made.current]
    if row.parameters:
        source = made.current
        output = made.new(shape) if current != shape else made.current
        saves = (source,) if output != source else ()
        made.put(Operation((source,), output, saves=saves, weights=made.weights(row)))
    elif current == shape:
        _sum(made, shape, alone=_is_one_layer(row.kind))
    elif math.prod(current) == math.prod(shape):
        made.shapes[made.current] = shape
    elif math.prod(current) == made.channels(shape):
        _scaled(made, shape)
    else:
        made.join(shape, pooled=row.kind.casefold().startswith("inception"))
    if made.anchors[-1] != made.current:
        made.anchors.append(made.current)


def _sum(made: RowTensors, shape: Shape, alone: bool) -> None:
    """Add a shortcut in place to the last tensor, before the activation that follows it."""
    parts = [
        tensor
        for tensor in (() if alone else made.unread())
        if tensor != made.current and made.shapes[tensor] == shape
    ]
    if not parts and not alone:
        parts = [
            tensor
            for tensor in made.anchors[-1:]
            if tensor != made.current and made.shapes[tensor] == shape
        ]
    operations = made.network.operations
    if not parts:
        if made.after_norm:
            # Most models call `F.relu(x, inplace=True)` here, which has no row.
            made.put(Operation((made.current,), made.current, saves=(made.current,)))
        return
    behind = operations[-1] if operations else None
    if behind is not None and behind.inputs == (behind.output,) and behind.saves:
        operations.pop()
        made.put(Operation((made.current, *parts), made.current, passes=True))
        operations.append(behind)
    else:
        made.put(Operation((made.current, *parts), made.current, passes=True))


def _scaled(made: RowTensors, shape: Shape) -> None:
    """Add squeeze and excitation: a factor for each channel."""
    for tensor in made.recent():
        if made.shapes[tensor] == shape:
            pair = (tensor, made.current)
            temporary = made.network.sizes[tensor]
            made.put(Operation(pair, made.new(shape), saves=pair, temporary=temporary))
            return
    made.join(shape)


def _is_one_layer(kind: str) -> bool:
    """Return whether a container is a convolution with norm and activation, without a shortcut."""
    kind = kind.casefold()
    return "conv" in kind and not any(word in kind for word in ("block", "mbconv", "next"))


def network_of(
    summary: ModelSummary, batch: int, precision: Precision, on: Overheads
) -> Network | None:
    """Return the forward pass of a model for a batch. None: no row has a shape."""
    rows = list(_in_order_of_their_ends(summary.layers))
    if not any(layer.shapes for layer in rows):
        return None
    made = RowTensors(batch, precision, on, last=summary.form is Form.KERAS)
    for shape in [shape for shape in summary.inputs if shape] or [_first_input(summary, rows)]:
        made.root(shape)
    made.anchors.append(0)
    for row in rows:
        _add(made, row)
    return _with_loss(made)


def _in_order_of_their_ends(layers: Sequence[Layer]) -> Iterable[Layer]:
    """Yield the rows with each container after its layers, as in flat tables."""
    open_rows: list[Layer] = []
    for layer in layers:
        while open_rows and open_rows[-1].depth >= layer.depth:
            yield open_rows.pop()
        if layer.leaf:
            yield layer
        else:
            open_rows.append(layer)
    yield from reversed(open_rows)


def _add(made: RowTensors, row: Layer) -> None:
    if not row.shapes:
        return
    role = role_of(row.kind, row.parameters) if row.leaf else Role.OTHER
    shape = row.shapes[0] or (1,)
    if role is Role.CONVOLUTION:
        add_convolution(made, row, shape)
    elif role is Role.LINEAR:
        add_linear(made, row, shape)
    elif role is Role.VIEW:
        add_view(made, shape)
    elif role is Role.OTHER or role is Role.JOIN:
        add_container(made, row, shape)
    elif role is Role.EMBEDDING:
        add_embedding(made, row, shape)
    elif role in (Role.RECURRENT, Role.ATTENTION):
        add_sequence(made, row, role, shape)
    elif role in (Role.MAX_POOL, Role.POOL, Role.RESIZE):
        add_resampled(made, role, shape, padded="blur" in row.kind.casefold())
    else:
        add_pointwise(made, row, role, shape)
    made.after_norm = role is Role.NORM


def _with_loss(made: RowTensors) -> Network:
    """Add the loss: a softmax over the model's output, which it keeps for the backward pass."""
    made.network.kept = [made.current]
    wide = made.new(made.shapes[made.current], wide=True)
    made.put(Operation((made.network.kept[0],), wide, saves=(wide,)))
    return made.network


def _first_input(summary: ModelSummary, rows: Sequence[Layer]) -> Shape:
    """Return the shape of one sample.

    It follows from the input size that the table prints, else from the first layer with
    weights.
    """
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
