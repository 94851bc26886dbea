"""Rows of containers: they add, multiply or concatenate what their layers left unread."""

from __future__ import annotations

import math

from radrm.estimators.summaries.layers import Layer, Shape
from radrm.estimators.symbolic.operations import Operation
from radrm.estimators.symbolic.row_tensors import RowTensors


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
