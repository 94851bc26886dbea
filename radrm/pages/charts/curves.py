"""Lines and areas over time, of fewer points with the same shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from radrm.pages.charts.frame import (
    COLOURS,
    MOST_SERIES,
    Axis,
    Frame,
    at,
    clock_ticks,
    known,
    legend,
)

Point: TypeAlias = "tuple[float, float | None]"


def thinned(points: Iterable[Point], begin: float, end: float, columns: int) -> list[list[Point]]:
    """Return the points between two places, at most five for each column, in unbroken pieces.

    No extreme value and no gap is lost. A value that is unknown ends a piece.
    """
    inside = [(x, known(y)) for x, y in points if math.isfinite(x) and begin <= x <= end]
    inside.sort(key=lambda each: each[0])
    width = (end - begin) / columns or 1.0
    pieces: list[list[Point]] = [[]]
    column: list[Point] = []
    place = -1
    for each in [*inside, (math.inf, None)]:
        here = columns + 1 if each[0] == math.inf else int((each[0] - begin) / width)
        if here != place and column:
            _close(column, pieces)
            column = []
        place = here
        if each[0] != math.inf:
            column.append(each)
    return [piece for piece in pieces if piece]


def _close(column: list[Point], pieces: list[list[Point]]) -> None:
    """Add what is kept of a column; a gap in it begins a new piece."""
    values = [place for place, (_, y) in enumerate(column) if y is not None]
    keep: set[int] = set()
    if values:
        least = min(values, key=lambda place: _value(column[place]))
        largest = max(values, key=lambda place: _value(column[place]))
        keep = {values[0], least, largest, values[-1]}
    gap = next((place for place, (_, y) in enumerate(column) if y is None), None)
    if gap is not None:
        keep.add(gap)
    for place in sorted(keep):
        if column[place][1] is None:
            if pieces[-1]:
                pieces.append([])
        else:
            pieces[-1].append(column[place])


def _value(point: Point) -> float:
    return 0.0 if point[1] is None else point[1]


_DASHES = ("", "6 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 3", "8 2 2 2 2 2")


class Series(Struct, frozen=True):
    """A line: places (seconds) and values, in any order. None is a gap.

    `steps`: each value holds until the next one. `filled`: the area below is filled.
    """

    name: str
    points: Sequence[Point] = ()
    steps: bool = False
    filled: bool = False


class Limit(Struct, frozen=True):
    """A level line with its name, as the memory that is reserved."""

    name: str
    value: float


class _Drawn(Struct, frozen=True):
    series: Series
    pieces: list[list[Point]] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        return [y for piece in self.pieces for _, y in piece if y is not None]


def curves(
    name: str,
    title: str,
    series: Sequence[Series],
    axis: Axis,
    begin_s: float,
    end_s: float,
    *,
    limits: Sequence[Limit] = (),
    width: float = 560,
    height: float = 220,
) -> str:
    """Return a chart of lines between two times, in epoch seconds.

    At most 8 series are drawn. `name` is unique in the page.
    """
    frame = Frame(name, title, width, height)
    begin_s, end_s = _ordered(begin_s, end_s)
    columns = int(frame.right - frame.left)
    drawn = [
        _Drawn(each, thinned(each.points, begin_s, end_s, columns)) for each in series[:MOST_SERIES]
    ]
    levels = [each for each in limits[:MOST_SERIES] if known(each.value) is not None]
    values = [value for each in drawn for value in each.values]
    top = frame.rows(axis, max([*values, *(each.value for each in levels)], default=0.0))

    def across(x: float) -> float:
        return frame.left + (x - begin_s) / (end_s - begin_s) * (frame.right - frame.left)

    frame.columns([(across(x), text) for x, text in clock_ticks(begin_s, end_s)])
    entries = []
    for place, each in enumerate(drawn):
        look = f'class="line-{COLOURS[place]}" stroke-dasharray="{_DASHES[place] or "none"}"'
        for piece in each.pieces:
            path = _path(
                [(across(x), frame.up(y or 0.0, top)) for x, y in piece], each.series.steps
            )
            if each.series.filled:
                first, last = at(across(piece[0][0])), at(frame.bottom)
                frame.body.append(
                    f'<path class="area-{COLOURS[place]}" d="{path}V{last}H{first}Z"/>'
                )
            frame.body.append(f'<path {look} d="{path}"/>')
        entries.append((f'<path {look} d="M0 6H20"/>', each.series.name))
    for level in levels:
        y = at(frame.up(level.value, top))
        frame.body.append(f'<path class="limit" d="M{at(frame.left)} {y}H{at(frame.right)}"/>')
        shown = f"{level.name} {axis.show(level.value)}"
        entries.append(('<path class="limit" d="M0 6H20"/>', shown))
    if not values:
        frame.nothing()
    if len(series) > MOST_SERIES:
        frame.notes.append(f"{len(series) - MOST_SERIES} more are not drawn.")
    return frame.figure(_said(drawn, axis), legend(entries if len(entries) > 1 else []))


def _ordered(begin: float, end: float) -> tuple[float, float]:
    low, high = known(begin) or 0.0, known(end) or 0.0
    return (low, high) if low + 1e-3 < high else (low, low + 1.0)


def _path(points: list[tuple[float, float]], steps: bool) -> str:
    """Return a line through these places; a single one is a short dash."""
    x, y = points[0]
    parts = [f"M{at(x)} {at(y)}"]
    for x, y in points[1:]:
        parts.append(f"H{at(x)}V{at(y)}" if steps else f"L{at(x)} {at(y)}")
    if len(points) == 1:
        parts.append("h1.5")
    return "".join(parts)


def _said(drawn: Sequence[_Drawn], axis: Axis) -> str:
    words = []
    for each in drawn:
        values = each.values
        if not values:
            words.append(f"{each.series.name}: nothing on record.")
            continue
        words.append(
            f"{each.series.name}: from {axis.show(min(values))} to {axis.show(max(values))}, "
            f"{axis.show(values[-1])} at the end."
        )
    return f"{axis.title}. " + " ".join(words)
