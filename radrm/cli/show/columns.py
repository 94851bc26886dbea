"""Rows and columns that fit: whole in a pipe, one line a row on a terminal of any width.

On a terminal too narrow for all, columns are left out in an order that their table
says, then long texts are shortened with an ellipsis. Nothing is ever wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions
from rich.text import Text

_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `least` is the width it may be cut to (0: it is never cut).

    `rank` is the order of leaving out: the highest goes first, 0 always stays. `most`
    bounds its width on a terminal (0: no bound).
    """

    title: str
    right: bool = False
    rank: int = 0
    least: int = 0
    most: int = 0


@dataclass(slots=True)
class Rows:
    """A table without lines. What others wrote must be made plain before it is added."""

    columns: Sequence[Column]
    rows: list[list[Text]] = field(default_factory=list)

    def add(self, *cells: Text | str) -> None:
        """One row, a cell per column; texts are taken as they are, never as markup."""
        self.rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from self.lines(options.max_width if console.is_terminal else None)

    def lines(self, width: int | None) -> list[Text]:
        """The header and the rows, each at most `width` cells wide (None: no bound)."""
        heads = [Text(column.title, style="bold") for column in self.columns]
        wanted = [
            max(cells[i].cell_len for cells in [heads, *self.rows]) for i in range(len(heads))
        ]
        widths = dict(enumerate(wanted)) if width is None else self._fitted(wanted, width)
        return [self._line(cells, widths) for cells in [heads, *self.rows]]

    def _fitted(self, wanted: Sequence[int], width: int) -> dict[int, int]:
        """The widths of the columns that stay, by their place."""
        bounded = [
            min(w, c.most) if c.most else w for w, c in zip(wanted, self.columns, strict=True)
        ]
        kept = dict(enumerate(bounded))
        while True:
            least = {i: min(w, self.columns[i].least or w) for i, w in kept.items()}
            spare = width - sum(least.values()) - _GAP * (len(least) - 1)
            droppable = [i for i in kept if self.columns[i].rank]
            if spare >= 0 or not droppable:
                break
            del kept[max(droppable, key=lambda i: self.columns[i].rank)]
        for i in kept:
            more = min(max(0, spare), kept[i] - least[i])
            least[i] += more
            spare -= more
        last = max(least)
        least[last] = max(1, least[last] + min(0, spare))
        return least

    def _line(self, cells: Sequence[Text], widths: dict[int, int]) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        gap = 0
        for i, width in widths.items():
            cell = cells[i].copy()
            cell.truncate(width, overflow="ellipsis")
            free = width - cell.cell_len
            before = free if self.columns[i].right else 0
            if cell:
                line.append(" " * (gap + before))
                line.append_text(cell)
                gap = free - before + _GAP
            else:
                gap += width + _GAP
        return line


@dataclass(frozen=True, slots=True)
class Field:
    """A name and its text beside it; on a terminal a long text goes on below its beginning.

    `whole` is for what people copy, such as paths: it is left to the terminal to break.
    """

    name: str
    text: Text
    indent: int = 14
    whole: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        room = options.max_width - self.indent
        lines = [self.text]
        if console.is_terminal and not self.whole and room > 0:
            lines = list(self.text.wrap(console, room, no_wrap=False))
        name = f"  {self.name}".ljust(self.indent)
        for line in lines:
            line.rstrip()
            shown = Text(name, end="", no_wrap=True, overflow="ignore")
            shown.stylize("dim")
            yield shown
            yield Text(no_wrap=True, overflow="ignore").append_text(line)
            name = " " * self.indent
