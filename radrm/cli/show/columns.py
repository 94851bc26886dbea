"""Rows and columns: complete in a pipe, and one line per row on a terminal of any width.

On a narrow terminal, columns are left out by their rank. Then long texts are shortened with an
ellipsis. Only the text of a last column that says so is wrapped.
"""

from __future__ import annotations

from radrm.cli.show.styled import Styled, cell_width
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from rich.console import Console, ConsoleOptions
    from rich.text import Text

EXTRA = 9
_GAP = 2


class Column(Record):
    """One column. `shows`: what it has of a thing (`table_of`). `least` is the smallest width that
    it may be cut to (0: never cut).

    On a narrow terminal the column with the highest `rank` is left out first; one with rank 0
    always stays. `good`: the width for which columns of the rank `EXTRA` are left out. `most`
    bounds its width on a terminal (0: no bound). `wrap`: of the last column, a long text goes on in
    the next lines.
    """

    title: str
    shows: Callable[[Any], Styled | str] | None = None
    right: bool = False
    rank: int = 0
    least: int = 0
    good: int = 0
    most: int = 0
    wrap: bool = False

    def narrowest(self, extra: bool) -> int:
        """The smallest width beside columns of the rank `EXTRA`, or without any; 0: it is never
        cut."""
        return max(self.least, self.good) if extra else self.least


class Rows:
    """A table without lines."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.rows: list[list[Styled]] = []

    def add(self, *cells: Styled | str) -> None:
        """Add one row, with a cell per column."""
        self.rows.append([cell if isinstance(cell, Styled) else Styled(cell) for cell in cells])

    def plain_lines(self) -> list[str]:
        return [line.plain for line in self.lines(None)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self.lines(options.max_width if console.is_terminal else None):
            yield line.__rich__()

    def lines(self, width: int | None) -> list[Styled]:
        """The header and the rows, each at most `width` cells wide (None: no bound)."""
        rows = [[Styled(column.title, "bold") for column in self.columns], *self.rows]
        taken = [[cell_width(cell.plain) for cell in cells] for cells in rows]
        wanted = [max(column) for column in zip(*taken, strict=True)]
        widths = dict(enumerate(wanted)) if width is None else self._fitted(wanted, width)
        last = len(self.columns) - 1
        if width is not None and self.columns[last].wrap and last in widths:
            rows = [line for row in rows for line in _wrapped(row, widths[last])]
            taken = [[cell_width(cell.plain) for cell in cells] for cells in rows]
        return [self._line(*row, widths) for row in zip(rows, taken, strict=True)]

    def _fitted(self, wanted: Sequence[int], width: int) -> dict[int, int]:
        """The widths of the columns that stay, by their place."""
        bounded = [
            min(w, c.most) if c.most else w for w, c in zip(wanted, self.columns, strict=True)
        ]
        kept = dict(enumerate(bounded))
        while True:
            droppable = [i for i in kept if self.columns[i].rank]
            extra = any(self.columns[i].rank == EXTRA for i in droppable)
            least = {i: min(w, self.columns[i].narrowest(extra) or w) for i, w in kept.items()}
            spare = width - sum(least.values()) - _GAP * (len(least) - 1)
            if spare >= 0 or not droppable:
                break
            del kept[max(droppable, key=lambda i: self.columns[i].rank)]
        goods = [(i, min(kept[i], self.columns[i].good)) for i in kept]
        for i, most in (*goods, *kept.items()):
            more = min(max(0, spare), max(0, most - least[i]))
            least[i] += more
            spare -= more
        last = max(least)
        least[last] = max(1, least[last] + min(0, spare))
        return least

    def _line(self, cells: list[Styled], taken: list[int], widths: dict[int, int]) -> Styled:
        line = Styled(cut=True)
        gap = 0
        for i, width in widths.items():
            cell = cells[i] if taken[i] <= width else cells[i].shortened(width)
            free = max(0, width - taken[i])
            before = free if self.columns[i].right else 0
            if cell.pieces:
                line.append(" " * (gap + before))
                line.extend(cell)
                gap = free - before + _GAP
            else:
                gap += width + _GAP
        return line


def table_of(things: Iterable[Any], *columns: Column) -> Rows:
    """A table with a row for each thing."""
    table = Rows(columns)
    for each in things:
        table.add(*(column.shows(each) for column in columns if column.shows is not None))
    return table


def _wrapped(cells: list[Styled], width: int) -> list[list[Styled]]:
    """A row with a last cell of one style, in as many lines as that needs at this width."""
    last = cells[-1]
    if cell_width(last.plain) <= width:
        return [cells]
    from textwrap import wrap

    style = last.pieces[0][1]
    pieces = [Styled(text, style) for text in wrap(last.plain, width)]
    empty = [Styled() for _ in cells[1:]]
    return [[*cells[:-1], pieces[0]], *([*empty, piece] for piece in pieces[1:])]


class Field(Record):
    """A name and its text beside it. On a terminal a long text is wrapped below its beginning.

    A `whole` text is not wrapped, so that users can copy it: paths, for example.
    """

    name: str
    text: Styled
    indent: int = 14
    whole: bool = False

    def plain_lines(self) -> list[str]:
        return [f"{self._head}{self.text.plain.rstrip()}"]

    @property
    def _head(self) -> str:
        return f"  {self.name}".ljust(self.indent)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        room = options.max_width - self.indent
        text = self.text.__rich__()
        lines = [text]
        if console.is_terminal and not self.whole and room > 0:
            lines = list(text.wrap(console, room, no_wrap=False))
        name = self._head
        for line in lines:
            line.rstrip()
            shown = Text(name, end="", no_wrap=True, overflow="ignore")
            shown.stylize("dim")
            yield shown
            yield Text(no_wrap=True, overflow="ignore").append_text(line)
            name = " " * self.indent
