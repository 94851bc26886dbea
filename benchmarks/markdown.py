"""A table in Markdown."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Iterable[str]], right: Container[int] = ()
) -> list[str]:
    """Return the lines of a table. `right`: the columns that are set to the right."""
    ruler = "|".join("---:" if at in right else "---" for at in range(len(heads)))
    return [_line(heads), f"|{ruler}|", *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)
