"""Rows of layers with matrices: convolutions, linear layers, recurrent ones and attention.

The parameters of a row limit the sizes of its input, so its input is found by them.
"""

from __future__ import annotations

import math

from radrm.estimators.summaries.layers import Layer, Shape
from radrm.estimators.symbolic.kernels import NO_FIT, Fit, borrowed_bytes, convolution_fit
from radrm.estimators.symbolic.kinds import Role
from radrm.estimators.symbolic.operations import Operation
from radrm.estimators.symbolic.row_tensors import RowTensors


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
