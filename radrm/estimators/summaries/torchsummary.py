"""The table that `torchsummary` prints of a PyTorch model.

        Layer (type)               Output Shape         Param #
    ================================================================
            Conv2d-1         [-1, 64, 112, 112]           9,408
              LSTM-2     [[-1, 5, 20], [-1, 20]]           3,360
    ================================================================
    Total params: 12,768
    Input size (MB): 0.57

There is a row for each call of a module, in the order in which the calls end. So a container
(except `Sequential` and `ModuleList`) follows its modules. The table does not show nesting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from radrm.estimators.summaries.layers import Form, Layer
from radrm.estimators.summaries.text import (
    MAX_LINE,
    Reading,
    common_batch,
    decimal,
    figures,
    finished,
    number,
    rows_of,
    shapes_in_lists,
)

# Nearly every row has one output and matches this. Other rows are read word by word.
_PLAIN = re.compile(
    r"\s*([^\s-][^\s]{0,200})-([0-9]{1,9})\s+"
    r"\[(-1|[0-9]{1,12})((?:, [0-9]{1,12}){0,11})\]\s+([0-9,]{1,15})\s*$"
)


def is_header(line: str) -> bool:
    """Return whether a line is this table's header, or Keras's with the same words (`is_row`)."""
    line = line.casefold()
    return "layer (type)" in line and "output shape" in line and "param #" in line


def is_row(line: str) -> bool:
    return _row(line) is not None


def read(lines: Sequence[str], start: int) -> Reading:
    """Read the table whose header is `lines[start]`. Raises `BadSummary`."""
    rows, problems, at, closed = rows_of(lines, start, _row, is_header)
    totals, end = figures(lines, at) if closed else ({}, at)
    batch_size = common_batch((batch,) for _, batches in rows for batch in batches)
    input_mib = decimal(totals.get("input size (mb)"))
    summary = finished(
        Form.TORCHSUMMARY,
        [layer for layer, _ in rows],
        problems,
        totals,
        start=start,
        closed=closed,
        batch_size=batch_size,
        input_mib=input_mib / (batch_size or 1) if input_mib else None,
    )
    return Reading(summary, end)


def _row(line: str) -> tuple[Layer, tuple[int, ...]] | None:
    """Read `Kind-NUMBER  [shape]  parameters`: the layer, and the first size of each output.

    torchsummary replaces every first size by the batch size.
    """
    plain = _PLAIN.match(line)
    if plain:
        kind, place, batch, sizes, parameters = plain.groups()
        count = number(parameters)
        if count is not None:
            shape = tuple([int(size) for size in sizes.split(",")[1:]])
            return Layer(kind, f"{kind}-{place}", 0, True, (shape,), (), count), (int(batch),)
    words = line.split(None, 1)
    if len(line) > MAX_LINE or len(words) < 2:
        return None
    kind, _, place = words[0].rpartition("-")
    shape_text, bracket, parameters = words[1].rpartition("]")
    count, row_number = number(parameters), number(place)
    outputs = shapes_in_lists(shape_text + bracket)
    if not kind or row_number is None or count is None or outputs is None:
        return None
    if any(size < 0 for shape in outputs for size in shape[1:]):
        return None
    shapes = tuple(shape[1:] for shape in outputs)
    layer = Layer(kind, f"{kind}-{row_number}", shapes=shapes, parameters=count)
    return layer, tuple(shape[0] for shape in outputs)
