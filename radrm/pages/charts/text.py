"""Text in HTML and SVG: escaped, with nothing unprintable, and about as wide as is said here."""

from __future__ import annotations

from html import escape
from unicodedata import east_asian_width

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
