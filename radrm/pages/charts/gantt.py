"""Who held what, and when: rows with bars; bars of the same time lie below each other."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from radrm.client.amounts import local_time
from radrm.core.units import show_seconds
from radrm.pages.charts.frame import (
    BOTTOM,
    SIZE,
    Frame,
    Kind,
    at,
    clock_ticks,
    known,
    legend,
    paint,
    pattern,
    safe,
    shortened,
)

MOST_ROWS = 64
MOST_BARS = 4000
MOST_LANES = 8
_LANE, _THIN, _GAP = 16.0, 8.0, 7.0
_LEAST = 1.5
"""The width of the shortest bar."""
_CHARACTERS = 80
_MOST_CHARACTERS = 600_000
"""The size of all bars of a chart."""


class GanttBar(Struct, frozen=True):
    """A stay: from `begin_s` to `end_s` (epoch seconds; None: it still lasts).

    `kind` is its place among the kinds of the chart. `label` stands in it; `more` is shown only
    to the pointer.
    """

    begin_s: float
    end_s: float | None
    kind: int
    label: str
    more: str = ""


class GanttRow(Struct, frozen=True):
    """A row with its name, as `GPU 0`, and its bars in any order."""

    label: str
    bars: Sequence[GanttBar] = ()


class _Placed(Struct, frozen=True):
    bar: GanttBar
    lane: int
    x: float
    width: float


def gantt(
    name: str,
    title: str,
    rows: Sequence[GanttRow],
    kinds: Sequence[Kind],
    begin_s: float,
    end_s: float,
    *,
    left_out: int = 0,
    width: float = 1120,
) -> str:
    """Return a Gantt chart between two times (epoch seconds).

    At most 64 rows, 4000 bars and 8 bars of one row at the same time are drawn; the chart says
    how many more there are, with the `left_out` ones that the caller knows of.
    """
    low, high = known(begin_s) or 0.0, known(end_s) or 0.0
    high = max(high, low + 1.0)
    frame = Frame(name, title, width, 0.0, left=72.0)
    scale = (frame.right - frame.left) / (high - low)
    placed: list[list[_Placed]] = []
    drawn = 0
    for row in rows[:MOST_ROWS]:
        found, lost = _placed(row.bars[: MOST_BARS - drawn], low, high, frame.left, scale)
        left_out += lost + len(row.bars[MOST_BARS - drawn :])
        drawn += len(found)
        placed.append(found)
    left_out += sum(len(row.bars) for row in rows[MOST_ROWS:])
    y, room = 6.0, _MOST_CHARACTERS
    used: set[int] = set()
    for row, found in zip(rows, placed, strict=False):
        lanes = 1 + max((each.lane for each in found), default=0)
        height = _LANE if lanes <= 4 else _THIN
        frame.body.append(
            f'<text class="tick" x="0" y="{at(y + lanes * height / 2)}" dy=".35em">'
            f"{safe(shortened(row.label, frame.left - 4, SIZE))}</text>"
        )
        for each in found:
            if room <= 0:
                left_out += 1
                continue
            used.add(each.bar.kind)
            frame.body.append(_bar(frame.name, each, y + each.lane * height, height, kinds))
            room -= len(frame.body[-1])
        y += lanes * height + _GAP
        frame.body.append(f'<path class="grid" d="M0 {at(y - _GAP / 2)}H{at(frame.right)}"/>')
    frame.height = y + BOTTOM + (0.0 if drawn else 40.0)
    frame.columns([(frame.left + (s - low) * scale, t) for s, t in clock_ticks(low, high, 10)])
    if not drawn:
        frame.nothing()
    frame.defs += [pattern(name, kind, kinds[kind]) for kind in sorted(used)]
    samples = [
        (f'<rect {paint(name, kind, kinds[kind])} width="20" height="12"/>', kinds[kind].name)
        for kind in sorted(used)
    ]
    if left_out:
        frame.notes.append(f"{left_out} more bars are not drawn: no room.")
    said = f"{drawn} bars in {len(placed)} rows, {_times(low, high)}."
    return frame.figure(said, legend(samples), " wide")


def _placed(
    bars: Sequence[GanttBar], low: float, high: float, left: float, scale: float
) -> tuple[list[_Placed], int]:
    """Return the bars with their lanes and places, and the number of those without room."""
    lanes: list[float] = []
    found: list[_Placed] = []
    lost = 0
    for bar in sorted(bars, key=lambda each: known(each.begin_s) or 0.0):
        begin, end = known(bar.begin_s), high if bar.end_s is None else known(bar.end_s)
        if begin is None or end is None or end < low or begin > high:
            continue
        begin, end = max(begin, low), min(max(end, begin), high)
        x = left + (begin - low) * scale
        width = max(_LEAST, (end - begin) * scale)
        lane = next((i for i, free in enumerate(lanes) if free <= x + 0.01), len(lanes))
        if lane == MOST_LANES:
            lost += 1
            continue
        if lane == len(lanes):
            lanes.append(0.0)
        lanes[lane] = x + width
        found.append(_Placed(bar, lane, x, width))
    return found, lost


def _bar(figure: str, each: _Placed, y: float, height: float, kinds: Sequence[Kind]) -> str:
    bar, kind = each.bar, kinds[each.bar.kind]
    label = bar.label[:_CHARACTERS]
    until = "now" if bar.end_s is None else _clock(bar.end_s)
    lasted = "" if bar.end_s is None else f" ({show_seconds(bar.end_s - bar.begin_s)})"
    words = [label, kind.name, f"{_clock(bar.begin_s)} to {until}{lasted}", bar.more]
    shape = (
        f"<g><title>{safe(', '.join(filter(None, words)))}</title>"
        f'<rect {paint(figure, bar.kind, kind)} x="{at(each.x)}" y="{at(y + 0.5)}" '
        f'width="{at(max(_LEAST, each.width - 0.8))}" height="{at(height - 1)}" rx="1"/>'
    )
    text = shortened(label, each.width - 8, SIZE) if height >= _LANE else ""
    if text:
        shape += f'<text class="inside" x="{at(each.x + 4)}" y="{at(y + 11.5)}">{safe(text)}</text>'
    return shape + "</g>"


def _clock(epoch_s: float) -> str:
    try:
        return local_time(epoch_s)
    except (OverflowError, ValueError, OSError):  # a time that the platform does not know
        return f"{epoch_s:g}"


def _times(low: float, high: float) -> str:
    return f"{_clock(low)} to {_clock(high)} {time.strftime('%Z')}"
