"""Fewer points with the same shape: per column of pixels the first, least, largest and last."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from radrm.pages.charts.scales import known

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
