"""The output of Keras's `model.summary()`: the plain table of Keras 2, the drawn one of Keras 3.

     Layer (type)                Output Shape              Param #
    =================================================================
     conv2d (Conv2D)             (None, 26, 26, 32)        320

    ┃ Layer (type)                    ┃ Output Shape           ┃       Param # ┃
    ┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩
    │ conv2d (Conv2D)                 │ (None, 26, 26, 32)     │           320 │

A cell may continue in the lines below. Channels are the last dimension by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from radrm.estimators.summaries.layers import Form, Layer
from radrm.estimators.summaries.text import (
    MAX_LAYERS,
    MAX_LINE,
    MAX_STRAY_ROWS,
    Problems,
    Reading,
    TooLong,
    common_batch,
    figures,
    finished,
    is_rule,
    number,
    per_sample,
    shapes_in_tuples,
)
from radrm.structs import replace

_UPRIGHT = re.compile(r"[┃│|]")
_NAMED = re.compile(r"(?P<name>[^()]{0,200})\((?P<kind>[\w.>]{1,200})\)$")
_BEGUN = re.compile(r"\s{0,40}[\w/.:-]{1,100}\s{0,3}\([A-Za-z]\w{0,100}")
_DRAWN = frozenset("┏┓┗┛┡┩├┤└┘┳╇┼┴━─┯╈╉╊┠┨┷+-=_ ")
_NEST = " │|¦└├─_¯"


def is_drawn_header(line: str) -> bool:
    return (
        len(line) <= MAX_LINE
        and "layer (type)" in line.casefold()
        and bool(_UPRIGHT.match(line.lstrip()))
        and len(_UPRIGHT.findall(line)) > 1  # both sides of a column
    )


def is_plain_header(line: str) -> bool:
    line = line.casefold()
    return "layer (type)" in line and "param #" in line and len(line) <= MAX_LINE


def is_row(line: str) -> bool:
    """Return whether a line is a row of a plain table, or begins one: `name (Kind)`."""
    return bool(_BEGUN.match(line))


def read_drawn(lines: Sequence[str], start: int) -> Reading:
    """Read the table with drawn columns whose header is `lines[start]`. Raises `BadSummary`."""
    names = [cell.strip().casefold() for cell in _UPRIGHT.split(lines[start].strip())[1:-1]]

    def cells(line: str) -> list[str] | None:
        found = _UPRIGHT.split(line.strip())[1:-1]
        return found if len(found) == len(names) else None

    rows: list[tuple[int, list[list[str]]]] = []
    problems = Problems()
    at, closed, between, strays = start + 1, False, True, 0
    while at < len(lines) and strays < MAX_STRAY_ROWS:
        line = lines[at]
        at += 1
        if len(line) <= MAX_LINE and line.strip() and _is_drawn_rule(line):
            between = True
            continue
        found = cells(line) if len(line) <= MAX_LINE and _UPRIGHT.match(line.lstrip()) else None
        if found is not None:
            # Rules separate rows. Without a rule, a line with a name and a number begins a row.
            if (
                between
                or not rows
                or (
                    found[0].strip()
                    and found[-1].strip()
                    and len(rows) > 0
                    and number(found[_at(names, "param")]) is not None
                )
            ):
                rows.append((at, [[cell] for cell in found]))
            else:
                for cell, more in zip(rows[-1][1], found, strict=True):
                    cell.append(more)
            between, strays = False, 0
        elif _FIGURE.match(line) or (between and rows and not line.strip()):
            at -= 1
            closed = True
            break
        elif line.strip():
            problems.add_row(at, line)
            strays += 1
        if len(rows) > MAX_LAYERS:
            raise TooLong(f"line {at}: more than {MAX_LAYERS:,} layers: too many to be read")
    return _finished(lines, start, at, names, rows, problems, closed)


def read_plain(lines: Sequence[str], start: int) -> Reading:
    """Read the table with columns by position, with its header in `lines[start]`.

    Raises `BadSummary`.
    """
    header = lines[start]
    starts = _starts(header)
    names = [header[a:b].strip().casefold() for a, b in _spans(starts)]

    def cells(line: str) -> list[str]:
        return _by_place(line, starts)

    rows: list[tuple[int, list[list[str]]]] = []
    problems = Problems()
    at, closed, strays = start + 1, False, 0
    while at < len(lines) and strays < MAX_STRAY_ROWS:
        line = lines[at]
        at += 1
        if is_rule(line):
            # Rules appear below the header, between rows (older Keras), and below the table.
            continue
        if _FIGURE.match(line):
            at -= 1
            closed = True
            break
        if not line.strip() or set(line.strip()) <= set("|¦¯_ "):
            continue
        found = _in_one_line(line, names) or (cells(line) if len(line) <= MAX_LINE else None)
        shape, count = _at(names, "output"), _at(names, "param")
        if found is not None and found[0].strip() and number(found[count]) is not None:
            rows.append((at, [[cell] for cell in found]))
            strays = 0
        elif found is not None and rows and not found[count].strip():
            for cell, more in zip(rows[-1][1], found, strict=True):
                cell.append(more)
            strays += bool(found[0].strip()) and not found[shape].strip()
        else:
            problems.add_row(at, line)
            strays += 1
        if len(rows) > MAX_LAYERS:
            raise TooLong(f"line {at}: more than {MAX_LAYERS:,} layers: too many to be read")
    return _finished(lines, start, at, names, rows, problems, closed)


_GAP = re.compile(r" {2,}")
_FIGURE = re.compile(r"\s*total params:", re.IGNORECASE)


def _in_one_line(line: str, names: Sequence[str]) -> list[str] | None:
    """Read a row with two spaces between its cells, which need not be in their columns."""
    cells = _GAP.split(line.strip()) if len(line) <= MAX_LINE else []
    found = [*cells, *[""] * (len(names) - len(cells))]
    if len(cells) < 3 or len(found) != len(names) or not _NAMED.match(cells[0]):
        return None
    return found if number(found[_at(names, "param")]) is not None else None


def _finished(
    lines: Sequence[str],
    start: int,
    at: int,
    names: Sequence[str],
    rows: Sequence[tuple[int, list[list[str]]]],
    problems: Problems,
    closed: bool,
) -> Reading:
    totals, end = figures(lines, at) if closed else ({}, at)
    read = [_layer(line, cells, names) for line, cells in rows]
    batch = common_batch(
        shape for row in read if row is not None for shape in row[1] if len(shape) > 0
    )
    layers = []
    for (line, cells), row in zip(rows, read, strict=True):
        if row is None:
            problems.add_row(line, " ".join("".join(cell).strip() for cell in cells))
            continue
        layer, shapes = row
        sizes = [per_sample(shape, batch) for shape in shapes]
        known = tuple(size for size in sizes if size is not None)
        if len(known) < len(sizes):
            problems.add(line, f"{layer.kind} {layer.name} has an output of unknown size")
        layers.append(replace(layer, shapes=known))
    layers = list(_opened(layers))
    inputs = tuple(s for each in layers if each.kind == "InputLayer" for s in each.shapes)
    summary = finished(
        Form.KERAS,
        layers,
        problems,
        totals,
        start=start,
        closed=closed,
        batch_size=batch,
        inputs=inputs,
    )
    return Reading(summary, end)


def _opened(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Yield the layers; a model inside a model has no parameters of its own, its layers follow."""
    for place, layer in enumerate(layers):
        opened = place + 1 < len(layers) and layers[place + 1].depth > layer.depth
        yield replace(layer, leaf=False, parameters=0) if opened else layer


def _layer(
    line: int, cells: list[list[str]], names: Sequence[str]
) -> tuple[Layer, tuple[tuple[int, ...], ...]] | None:
    """Return the layer of a row without shapes, and its shapes with the batch dimension."""
    first = cells[0][0].strip("\u00a0 ")
    depth = _depth(cells[0][0])
    named = "".join(cell.strip() for cell in cells[0])
    named = named.strip(_NEST) if depth else named
    found = _NAMED.match(named)
    count = number("".join(c.strip() for c in cells[_at(names, "param")]).split("(")[0])
    text = " ".join(cell.strip() for cell in cells[_at(names, "output")]).strip()
    shapes = () if text in ("?", "-", "multiple") else shapes_in_tuples(text)
    if not first or found is None or count is None or shapes is None:
        return None
    layer = Layer(kind=found["kind"], name=found["name"].strip(), depth=depth, parameters=count)
    return layer, shapes


def _depth(cell: str) -> int:
    inner = len(cell) - len(cell.lstrip(" "))
    marks = sum(cell.count(mark) for mark in "|¦│└")
    return 0 if not marks else max(1, (inner - 1) // 3 if "└" in cell else marks)


def _is_drawn_rule(line: str) -> bool:
    return set(line) <= _DRAWN


def _at(names: Sequence[str], beginning: str) -> int:
    for place, name in enumerate(names):
        if name.startswith(beginning):
            return place
    return len(names) - 1


def _starts(header: str) -> list[int]:
    """Return where each column begins: after two or more spaces."""
    return [found.start() for found in re.finditer(r"(?:(?<=\s\s)|^|(?<=^\s))\S", header)]


def _spans(starts: Sequence[int]) -> list[tuple[int, int | None]]:
    return list(zip(starts, [*starts[1:], None], strict=True))


def _by_place(line: str, starts: Sequence[int]) -> list[str]:
    """Return the cells by position; a cell may begin one character early or late."""
    cuts = [0]
    for begin in starts[1:]:
        cut = begin
        # A name that fills its column pushes the next cell on by one.
        while cut < len(line) and cut > cuts[-1] and line[cut - 1] != " " and cut - begin < 3:
            cut += 1
        cuts.append(cut)
    return [line[a:b] for a, b in zip(cuts, [*cuts[1:], None], strict=True)]
