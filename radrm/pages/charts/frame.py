"""The figure around a chart: its texts, colours, axes, legend and description.

The palette is that of Okabe and Ito, which people with colour vision deficiency can tell apart.

Times are shown as local time. Values that a chart cannot show are unknown (`known`).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from html import escape
from unicodedata import east_asian_width

from msgspec import Struct, field

from radrm.client.amounts import number
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

_WIDE = ("W", "F")
_CHARACTER = 0.56
"""The width of a character of a sans-serif font, in parts of its size."""


def safe(text: str) -> str:
    """Return untrusted text for use in HTML and XML, in elements and attributes."""
    return escape(plain(text))


def cells(text: str) -> int:
    """Return the width of a text in characters; those of East Asian scripts count twice."""
    return sum(2 if east_asian_width(c) in _WIDE else 1 for c in text)


def width_of(text: str, size: float) -> float:
    """Return about how wide a text is at a font size, in the same unit."""
    return cells(text) * size * _CHARACTER


def shortened(text: str, width: float, size: float) -> str:
    """Return the text cut to this width, with an ellipsis; "" if not even two characters fit."""
    most = int(width / (size * _CHARACTER))
    if cells(text) <= most:
        return text
    if most < 3:
        return ""
    kept, taken = [], 1
    for c in text:
        taken += cells(c)
        if taken > most:
            break
        kept.append(c)
    return "".join(kept) + "…"


def at(value: float) -> str:
    """Return a coordinate with at most one digit after the point."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


COLOURS = ("blue", "orange", "green", "purple", "yellow", "sky", "grey", "ink")
"""Each is a custom property of `style` (`--blue`), and a class for fills and lines."""
MOST_SERIES = len(COLOURS)

_TILES = {
    "right": '<path class="hatch" d="M-2 2L2-2M0 8L8 0M6 10L10 6"/>',
    "left": '<path class="hatch" d="M-2 6L2 10M0 0L8 8M6-2L10 2"/>',
    "across": '<path class="hatch" d="M0 4H8"/>',
    "down": '<path class="hatch" d="M4 0V8"/>',
    "grid": '<path class="hatch" d="M0 4H8M4 0V8"/>',
    "dots": '<circle class="dot" cx="4" cy="4" r="1.8"/>',
}


class Kind(Struct, frozen=True):
    """A kind of bar: its name in the legend, its colour, and `solid`, `open` or one of `_TILES`."""

    name: str
    colour: str = "blue"
    pattern: str = "solid"


def pattern(figure: str, place: int, kind: Kind) -> str:
    """Return the definition of a kind's pattern, if it needs one."""
    tile = _TILES.get(kind.pattern)
    if tile is None:
        return ""
    return (
        f'<pattern id="{figure}-{place}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect class="fill-{kind.colour}" width="8" height="8"/>{tile}</pattern>'
    )


def paint(figure: str, place: int, kind: Kind) -> str:
    """Return the attributes that fill a shape."""
    if kind.pattern == "open":
        return f'class="open-{kind.colour}"'
    if kind.pattern in _TILES:
        return f'fill="url(#{figure}-{place})"'
    return f'class="fill-{kind.colour}"'


def legend(entries: list[tuple[str, str]]) -> str:
    """Return a list of samples (SVG shapes of 20 x 12) and their names."""
    if not entries:
        return ""
    items = "".join(
        '<li><svg class="sample" width="20" height="12" viewBox="0 0 20 12" aria-hidden="true">'
        f"{sample}</svg><bdi>{safe(name)}</bdi></li>"
        for sample, name in entries
    )
    return f'<ul class="legend">{items}</ul>'


_LARGEST = 1e15
_LAST_S = 2.0**36
_DAY_S = 86_400
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_STEPS_DAYS = (1, 2, 7, 14, 28, 91, 182, 365, 1826, 3652, 36525, 365250)


def known(value: float | None) -> float | None:
    """Return a value that a chart can show; None for others: not finite, or beyond 1e15."""
    return value if value is not None and -_LARGEST <= value <= _LARGEST else None


class Axis(Struct, frozen=True):
    """What the values of a chart are. It begins at zero.

    `title` says what is counted, and its unit; `step` returns the next round step that is not
    smaller; `top` is the least upper end.
    """

    title: str
    show: Callable[[float], str]
    step: Callable[[float], float]
    top: float = 0.0

    def ticks(self, largest: float, most: int = 5) -> list[float]:
        """Return the ticks from zero on, at most `most` + 1; the last is the axis' upper end."""
        high = max(self.top, largest, 0.0) or 1.0
        step = self.step(max(high / most, 1e-9))
        return [step * place for place in range(max(1, math.ceil(high / step - 1e-9)) + 1)]


def _round_step(least: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, 50..., also below 1."""
    power = 10.0 ** math.floor(math.log10(least))
    for factor in (1, 2, 5):
        if factor * power >= least * (1 - 1e-9):
            return factor * power
    return 10 * power


def _double_step(least: float) -> float:
    """Return the next power of two, at least 1."""
    return 2.0 ** max(0, math.ceil(math.log2(least) - 1e-9))


def _time_step(least: float) -> float:
    for step in (*_STEPS_S, *(days * _DAY_S for days in _STEPS_DAYS)):
        if step >= least:
            return step
    return _round_step(least)


def _shown(value: float) -> str:
    return number(float(f"{value:.4g}"))


def counts(title: str) -> Axis:
    """Things that are counted: ticks are whole numbers."""
    return Axis(title, lambda n: f"{n:.0f}", lambda least: max(1.0, _round_step(least)), 1.0)


def numbers(title: str) -> Axis:
    """Any amounts; the title has their unit."""
    return Axis(title, _shown, _round_step)


def sizes(title: str, top_mib: float = 0.0) -> Axis:
    """Memory in MiB."""
    return Axis(title, show_mib, _double_step, max(1.0, top_mib))


def short_span(seconds: float) -> str:
    """Return a duration without zeros at its end: `2h`, `2h30m`."""
    text = show_seconds(seconds)
    return re.sub(r"(?<=[dhm])00[hms]$", "", text)


def clock_ticks(begin_s: float, end_s: float, most: int = 6) -> list[tuple[float, str]]:
    """Return ticks between two epoch seconds and their texts, at round local times and dates.

    A change of the clock moves ticks, so that their texts stay round.
    """
    begin_s, end_s = (min(max(each, 0.0), _LAST_S) for each in (begin_s, end_s))
    step = _time_step(max((end_s - begin_s) / most, 1.0))
    then = time.localtime(begin_s)
    ticks: list[tuple[float, str]] = []
    for place in range(_DAY_S // int(min(step, _DAY_S)) * 2 + most * 4 + 400):
        days, seconds = divmod(int(step) * place, _DAY_S)
        clock = seconds // 3600, seconds // 60 % 60, seconds % 60
        if step > _DAY_S:  # from the first of January on, so that ticks are the same on each day
            day = (then.tm_year, 1, 1 + days)
        else:
            day = (then.tm_year, then.tm_mon, then.tm_mday + days)
        try:
            moment = time.mktime((*day, *clock, 0, 0, -1))
        except (OverflowError, ValueError):  # years that the platform does not know
            break
        if moment > end_s or len(ticks) > 2 * most:
            break
        if moment >= begin_s and (not ticks or moment > ticks[-1][0]):
            ticks.append((moment, _moment(moment, step, end_s - begin_s)))
    return ticks


def _moment(epoch_s: float, step_s: float, span_s: float) -> str:
    then = time.localtime(epoch_s)
    date = f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]}"
    if step_s >= _DAY_S:
        return f"{date} {then.tm_year}" if span_s > 300 * _DAY_S else date
    if then.tm_hour == then.tm_min == then.tm_sec == 0 and span_s > _DAY_S / 4:
        return date
    clock = f"{then.tm_hour}:{then.tm_min:02}"
    return f"{clock}:{then.tm_sec:02}" if step_s < 60 else clock


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


SIZE = 12.0
"""The font size of the text in charts, in units of the drawing; `style` says the same."""
LEFT, RIGHT, TOP, BOTTOM = 60.0, 16.0, 28.0, 26.0
_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Frame(Struct):
    """A chart that is being drawn. `name` is unique in its page: letters, digits and dashes.

    Sizes are in units of the drawing: about pixels on a wide screen.
    """

    name: str
    title: str
    width: float
    height: float
    left: float = LEFT
    body: list[str] = field(default_factory=list)
    defs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} names no figure; write letters, digits and dashes")

    @property
    def right(self) -> float:
        return self.width - RIGHT

    @property
    def bottom(self) -> float:
        return self.height - BOTTOM

    def rows(self, axis: Axis, largest: float) -> float:
        """Draw the upright axis; return its upper end."""
        ticks = axis.ticks(largest)
        top = ticks[-1]
        self.body.append(f'<text class="tick" x="0" y="12">{safe(axis.title)}</text>')
        lines = []
        for tick in ticks:
            y = at(self.up(tick, top))
            lines.append(f"M{at(self.left)} {y}H{at(self.right)}")
            self.body.append(
                f'<text class="tick end" x="{at(self.left - 6)}" y="{y}" dy=".35em">'
                f"{safe(axis.show(tick))}</text>"
            )
        self.body.append(f'<path class="grid" d="{"".join(lines)}"/>')
        return top

    def up(self, value: float, top: float) -> float:
        """Return the height of a value on an axis that ends at `top`; within the chart."""
        part = min(1.0, max(0.0, value / top))
        return self.bottom - part * (self.bottom - TOP)

    def columns(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Draw the texts of the level axis: places and texts. Those that would touch are left
        out."""
        free = 0.0
        for x, text in ticks:
            half = width_of(text, SIZE * 1.35) / 2  # on narrow screens the text is larger
            middle = min(max(x, half), self.width - half)
            if middle - half < free:
                continue
            free = middle + half + SIZE / 2
            self.body.append(
                f'<path class="mark" d="M{at(x)} {at(self.bottom)}v4"/>'
                f'<text class="tick middle" x="{at(middle)}" y="{at(self.bottom + 18)}">'
                f"{safe(text)}</text>"
            )

    def nothing(self, text: str = "nothing on record") -> None:
        """Say that there is nothing to draw."""
        middle = (self.left + self.right) / 2
        self.body.append(
            f'<text class="nothing middle" x="{at(middle)}" y="{at(self.height / 2)}">'
            f"{safe(text)}</text>"
        )

    def figure(self, said: str, legend: str = "", more: str = "") -> str:
        """Return the figure. `said` is its content in words, for people who cannot see it."""
        defs = f"<defs>{''.join(self.defs)}</defs>" if self.defs else ""
        notes = "".join(f'<p class="note">{safe(note)}</p>' for note in self.notes)
        return (
            f'<figure class="chart{more}"><figcaption>{safe(self.title)}</figcaption>'
            f'{legend}<div class="drawing"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {at(self.width)} {at(self.height)}" '
            f'aria-labelledby="{self.name}-title {self.name}-desc">'
            f'<title id="{self.name}-title">{safe(self.title)}</title>'
            f'<desc id="{self.name}-desc">{safe(said)}</desc>'
            f"{defs}{''.join(self.body)}</svg></div>{notes}</figure>"
        )
