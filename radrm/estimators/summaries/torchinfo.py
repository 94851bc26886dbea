"""The table that `torchinfo` prints of a PyTorch model: a tree of modules.

    Layer (type:depth-idx)                   Output Shape              Param #
    ==========================================================================
    ResNet                                   [8, 1000]                 --
    ├─Conv2d: 1-1                            [8, 64, 32, 32]           9,408
    ├─Sequential: 1-5                        [8, 64, 16, 16]           --
    │    └─ReLU: 2-1                         [8, 64, 16, 16]           --
    ├─Linear: 1-6                            [8, 1000]                 (recursive)

Any columns and row settings can be read. If the tree is cut off (`depth=3` is the default),
a module at the cut has the parameters of all modules inside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from radrm.estimators.summaries.layers import Form, Layer, Shape
from radrm.estimators.summaries.text import (
    MAX_LINE,
    Reading,
    figures,
    finished,
    number,
    per_sample,
    rows_of,
    shapes_in_lists,
)

_COLUMNS = re.compile(
    r"input shape|output shape|param #|param %|kernel shape|groups|mult-adds|trainable"
)
_ROW = re.compile(
    r"(?P<tree>[\s│├└─|+]{0,2000})(?P<kind>[A-Za-z_][\w.<>]{0,199})"
    r"(?: \((?P<name>[^()\s]{0,200})\))?"
    r"(?::\s{0,3}(?P<depth>\d{1,4})-\d{1,6})?(?:\s+(?P<cells>\S.*))?$"
)


class _Row(Struct, frozen=True):
    kind: str
    name: str
    depth: int
    outputs: tuple[Shape, ...]
    inputs: tuple[Shape, ...]
    parameters: int
    attributes: dict[str, str]


def is_header(line: str) -> bool:
    line = line.casefold()
    if "layer (type" not in line or len(line) > MAX_LINE:
        return False
    return "depth-idx)" in line or "(var_name)" in line


def is_plain_header(line: str) -> bool:
    """Return whether a line is the header of a table without depths (`row_settings=()`).

    torchsummary and Keras print the same header.
    """
    line = line.casefold()
    return "layer (type)" in line and len(line) <= MAX_LINE and bool(_COLUMNS.search(line))


def is_row(line: str) -> bool:
    """Return whether a line is a row that only torchinfo prints: a branch of the tree."""
    return bool(_ROW.match(line)) and bool(re.match(r"\s{0,100}(├─|\+ )", line))


def read(lines: Sequence[str], start: int) -> Reading:
    """Read the table whose header is `lines[start]`. Raises `BadSummary`."""
    header = lines[start].casefold()
    columns = _COLUMNS.findall(header)
    margin = header.index("layer (type")
    rows, problems, at, closed = rows_of(
        lines, start, lambda line: _row(line, columns, margin), is_plain_header
    )
    totals, end = figures(lines, at) if closed else ({}, at)
    batch = _batch(rows)
    layers = [
        _layer(row, batch, leaf=place + 1 == len(rows) or rows[place + 1].depth <= row.depth)
        for place, row in enumerate(rows)
    ]
    summary = finished(
        Form.TORCHINFO,
        layers,
        problems,
        totals,
        start=start,
        closed=closed,
        batch_size=batch,
        inputs=layers[0].inputs if layers else (),
    )
    return Reading(summary, end)


def _row(line: str, columns: Sequence[str], margin: int) -> _Row | None:
    found = _ROW.match(line) if len(line) <= MAX_LINE else None
    cells = _cells(found["cells"] or "") if found else None
    if found is None or cells is None or len(cells) != len(columns):
        return None
    given = dict(zip(columns, cells, strict=True))
    outputs, inputs = _shapes(given.get("output shape")), _shapes(given.get("input shape"))
    parameters, attributes = _parameters(given.get("param #", "--"))
    if outputs is None or inputs is None or parameters is None:
        return None
    if given.get("trainable", "").casefold() == "false":
        attributes["trainable"] = "False"
    if given.get("kernel shape", "--") != "--":
        attributes["kernel_size"] = given["kernel shape"]
    depth = found["depth"]
    column = found.start("kind") - margin
    return _Row(
        kind=found["kind"],
        name=found["name"] or "",
        depth=int(depth) if depth else max((column + 3) // 5, 0),
        outputs=outputs,
        inputs=inputs,
        parameters=parameters,
        attributes=attributes,
    )


def _cells(text: str) -> list[str] | None:
    """Return the words of a row; a list in brackets is one word. None: brackets do not match."""
    found: list[str] = []
    depth = 0
    for word in text.split():
        if depth:
            found[-1] += f" {word}"
        else:
            found.append(word)
        depth += word.count("[") - word.count("]")
        if depth < 0:
            return None
    return None if depth else found


def _shapes(text: str | None) -> tuple[Shape, ...] | None:
    return () if text is None or text == "--" else shapes_in_lists(text)


def _parameters(text: str) -> tuple[int | None, dict[str, str]]:
    """Read `9,408`, `--`, `(9,408)` (frozen) or `(recursive)` (counted in another row)."""
    if text == "--":
        return 0, {}
    if text.casefold() == "(recursive)":
        return 0, {"recursive": "True"}
    if text.startswith("(") and text.endswith(")"):
        return number(text[1:-1]), {"trainable": "False"}
    return number(text), {}


def _batch(rows: Sequence[_Row]) -> int | None:
    """Return the first size of the model's input, else the most common first size of outputs."""
    for row in rows[:1]:
        if row.inputs and row.inputs[0] and row.inputs[0][0] > 0:
            return row.inputs[0][0]
    first = Counter(shape[0] for row in rows for shape in row.outputs if shape)
    size = first.most_common(1)[0][0] if first else -1
    return size if size > 0 else None


def _layer(row: _Row, batch: int | None, *, leaf: bool) -> Layer:
    outputs = [per_sample(shape, batch) for shape in row.outputs]
    inputs = [per_sample(shape, batch) for shape in row.inputs]
    return Layer(
        kind=row.kind,
        name=row.name,
        depth=row.depth,
        leaf=leaf,
        shapes=tuple(shape for shape in outputs if shape is not None),
        inputs=tuple(shape for shape in inputs if shape is not None),
        parameters=row.parameters,
        attributes=row.attributes,
    )
