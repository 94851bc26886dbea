"""Tables as text: rows by the names of their columns, and errors with their lines.

A table is not trusted: lines, rows and cells are bounded, and each line that cannot be used
is reported. No file is opened here; the caller passes the lines.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct, field

from radrm.errors import BadFile, plain

T = TypeVar("T")

MAX_ROWS = 2_000_000
_LONGEST_LINE = 65_536
_LONGEST_SHOWN = 40
_LINES_NAMED = 5


class LineErrors(Struct):
    """The errors of a source by line. The first is reported in full."""

    source: str
    first: str | None = None
    others: list[int] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, text: str) -> None:
        self.count += 1
        if self.first is None:
            self.first = f"line {line}: {text}"
        elif len(self.others) < _LINES_NAMED:
            self.others.append(line)

    def raise_any(self) -> None:
        """Raise `BadFile` if there is an error. Its text is one line for any number of errors."""
        if self.first is None:
            return
        more = ""
        if self.others:
            shown = ", ".join(map(str, self.others))
            dots = ", ..." if self.count - 1 > len(self.others) else ""
            what = "line" if self.count == 2 else "lines"
            more = f" ({self.count - 1} more {what}: {shown}{dots})"
        raise BadFile(f"{self.source} {self.first}{more}")


class Table(Struct):
    """The names of the columns, and the rows with one cell for each name.

    `rows` reads while it is iterated, once; each row is (line, cells). Rows with another number
    of cells become errors.
    """

    source: str
    names: tuple[str, ...]
    errors: LineErrors
    rows: Iterator[tuple[int, list[str]]]

    def at(self, *names: str) -> int | None:
        """Return the place of the first of these columns that exists. None: none does."""
        return next((self.names.index(n) for n in names if n in self.names), None)

    def each(self, make: Callable[[int, list[str]], T]) -> list[T]:
        """Return what `make` makes of each row, from its line and cells. Raises `BadFile` for the
        rows where it raises ValueError, and for those that have other columns."""
        found = []
        for line, cells in self.rows:
            try:
                found.append(make(line, cells))
            except ValueError as error:
                self.errors.add(line, str(error))
        self.errors.raise_any()
        return found

    def need(self, wanted: Sequence[Sequence[str]], hint: str = "") -> list[int]:
        """Return the places of required columns, each under one of several names.

        Raises `BadFile` if a column is missing.
        """
        places = [self.at(*names) for names in wanted]
        missing = [names[0] for names, at in zip(wanted, places, strict=True) if at is None]
        if missing:
            what = "column" if len(missing) == 1 else "columns"
            there = plain(", ".join(self.names))[:200]
            raise BadFile(
                f"{self.source} line 1: no {what} {', '.join(missing)}; the first line must "
                f"name the columns; it names: {there}{hint}"
            )
        return [at for at in places if at is not None]


def read_table(
    lines: Iterable[str],
    source: str,
    delimiter: str = ",",
    columns: Sequence[str] = (),
    most: int | None = None,
) -> Table:
    """Read the table in these lines. Raises `BadFile` if there is none.

    Spaces around the names of columns do not count. Each name may appear once. `columns`: the
    names of the columns, if the table has no line with them. `most`: the limit of rows.
    """
    reader = csv.reader(_bounded(lines, source), delimiter=delimiter)
    header = (0, list(columns)) if columns else next(_records(reader, source), None)
    if header is None:
        raise BadFile(f"{source}: empty; its first line must name the columns")
    names = [cell.strip() for cell in header[1]]
    if names and not names[-1]:  # some programs end every line with a comma: `a,b,`
        names.pop()
    for at, name in enumerate(names):
        if name in names[:at]:
            raise BadFile(f"{source} line 1: there are two columns {shown(name)}; rename one")
    errors = LineErrors(source)
    rows = _rows(reader, source, len(names), errors, most or MAX_ROWS)
    return Table(source, tuple(names), errors, rows)


def shown(text: str) -> str:
    """Return a cell for a message: quoted, shortened, without control characters."""
    text = plain(text)
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "...")


def _rows(
    reader: Iterator[list[str]], source: str, width: int, errors: LineErrors, most: int
) -> Iterator[tuple[int, list[str]]]:
    for count, (line, cells) in enumerate(_records(reader, source), 1):
        if count > most:
            raise BadFile(f"{source} line {line}: more than {most:,} rows; split the file")
        if len(cells) == width + 1 and not cells[-1].strip():
            cells.pop()
        if len(cells) == width:
            yield line, cells
        else:
            errors.add(line, f"has {len(cells)} values for the {width} columns")


def _records(reader: Iterator[list[str]], source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of every line that is not blank."""
    line: int = 0
    try:
        for cells in reader:
            line = getattr(reader, "line_num", 0)
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield line, cells
    except csv.Error as error:
        raise BadFile(f"{source} line {line + 1}: not a table: {error}") from None


def _bounded(lines: Iterable[str], source: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST_LINE:
            raise BadFile(f"{source} line {number}: longer than {_LONGEST_LINE} characters")
        if "\0" in line:
            raise BadFile(f"{source} line {number}: holds a NUL byte; a trace is a text file")
        yield line.removeprefix("\ufeff") if number == 1 else line
