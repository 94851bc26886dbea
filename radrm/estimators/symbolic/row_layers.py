"""Rows of layers without matrices: activations, norms, dropout, pools, views, embeddings."""

from __future__ import annotations

import math

from radrm.estimators.summaries.layers import Layer, Shape
from radrm.estimators.symbolic.kinds import Role
from radrm.estimators.symbolic.operations import Operation
from radrm.estimators.symbolic.row_tensors import RowTensors

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
