"""The colours and patterns of lines, bars and legends. The colours are those of `style`.

The palette is that of Okabe and Ito, which people with colour vision deficiency can tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.pages.charts.text import safe

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


@dataclass(frozen=True, slots=True)
class Kind:
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
