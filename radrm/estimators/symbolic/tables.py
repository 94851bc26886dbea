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

from radrm.estimators.memory.overheads import Overheads
from radrm.estimators.summaries.layers import Form, Layer, ModelSummary, Shape
from radrm.estimators.symbolic.kernels import convolution_fit
from radrm.estimators.symbolic.kinds import Role, role_of
from radrm.estimators.symbolic.operations import Network, Operation
from radrm.estimators.symbolic.row_containers import add_container
from radrm.estimators.symbolic.row_layers import (
    add_embedding,
    add_pointwise,
    add_resampled,
    add_view,
)
from radrm.estimators.symbolic.row_tensors import RowTensors
from radrm.estimators.symbolic.row_weights import add_convolution, add_linear, add_sequence
from radrm.estimators.symbolic.settings import Precision


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
    """Add the operations of one row."""
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
