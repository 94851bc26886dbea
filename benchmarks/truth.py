"""docs/lab/what-is-true.md: each published figure, ours, the ratio, and one word.

    python -m benchmarks.truth

Ours is read from the pages that commands write (`benchmarks.pages` runs these and fails where a
page differs), so no figure of the page is typed. The word follows from one rule for all rows,
unless a constant was fitted to the figure, or the figure follows from how ours was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from benchmarks import markdown
from benchmarks.published_rows import PARTS, Pick, Row
from tests.paths import REPOSITORY

LAB = REPOSITORY / "docs" / "lab"
PAGE = LAB / "what-is-true.md"
LEAST, MOST = 0.8, 1.25
"""The ratios of a figure that is reproduced."""
CLOSE = 0.05
"""How far from 1 the ratio of a size may be (`Row.close`)."""
ZERO = 0.5
"""What a count may be where none was published."""

_HEAD = f"""<!-- made by `python -m benchmarks.truth`; do not edit -->
# What is true

Each figure of the five papers, beside ours. `make pages` runs the commands, and fails where a page
or this table differs. *ratio*: ours / published.

- **reproduced**: the ratio is from {LEAST:g} to {MOST:g}; counts of jobs may be 1 apart, deaths two
  standard deviations of our runs, since single runs were published; energies, times in seconds,
  speeds, SM activities and accuracies are within {CLOSE:.0%};
- **fitted**: a constant of the model was chosen so;
- **by construction**: ours could not come out otherwise, so it shows nothing;
- **missed**: neither;
- **needs a GPU**: its command waits for one;
- **not tried**: no command has it.

*plot*: the text prints no number; it was read from a picture. *implied*: it follows from other
numbers of the text.
"""


class Judged(Struct, frozen=True):
    """A row with what was found. `ours` None: there is nothing."""

    row: Row
    ours: float | None
    ratio: float | None
    word: str


class NoSuchFigure(Exception):
    """A page has no such cell: the row or the page is wrong."""


def figure(page: str, pick: Pick) -> float:
    """Return the figure that `pick` names. Raises `NoSuchFigure`."""
    if pick.column is None:
        found = re.search(pick.row.replace(" ", r"\s+"), page)  # where a line ends is by chance
        if found is None:
            raise NoSuchFigure(pick.row)
        return float(found[1].replace(",", ""))
    for heading, header, cells in _rows(page):
        if pick.under not in (None, heading):
            continue
        if cells[0] == pick.row and pick.column in header:
            numbers = _numbers(cells[header.index(pick.column)])
            if pick.nth < len(numbers):
                return numbers[pick.nth]
    raise NoSuchFigure(f"{pick.row} | {pick.column} [{pick.nth}]")


def _rows(page: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each row of each table with its heading and header, without the marks of a miss."""
    heading, header = "", None
    for line in page.splitlines():
        if not line.startswith("|"):
            header = None
            if line.startswith("#"):
                heading = line.lstrip("# ")
            continue
        plain = line.replace("**!**", "").replace("**", "")
        cells = [cell.strip() for cell in plain.strip().strip("|").split("|")]
        if header is None:
            header = cells
        elif not set(line) <= set("|-: "):
            yield heading, header, cells


def _numbers(text: str) -> list[float]:
    return [float(each.replace("−", "-")) for each in re.findall(r"[-−+]?\d+(?:\.\d+)?", text)]


def judged(row: Row, pages: dict[str, str]) -> Judged:
    """Return a row with its figure, its ratio and its word."""
    if row.pick is None:
        return Judged(row, None, None, row.word or "not tried")
    ours = figure(pages[row.pick.page], row.pick) * row.pick.times
    low, high = row.published
    nearest = min(max(ours, low), high)
    ratio = round(ours / nearest, 2) + 0.0 if nearest else None
    within = row.within or (ZERO if ratio is None else 0.0)
    if row.spread is not None:
        within = max(within, 2 * figure(pages[row.spread.page], row.spread))
    near = abs(ours - nearest) <= within
    least, most = (1 - CLOSE, 1 + CLOSE) if row.close else (LEAST, MOST)
    holds = near or (ratio is not None and least <= ratio <= most)
    return Judged(row, ours, ratio, row.word or ("reproduced" if holds else "missed"))


def table(rows: Sequence[Judged]) -> list[str]:
    """Return the lines of a table."""
    cells = []
    for each in rows:
        low, high = each.row.published
        published = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        ours = "" if each.ours is None else f"{each.ours + 0.0:g}"
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
        cells.append((each.row.source, each.row.what, published, ours, ratio, each.word))
    heads = ("source", "what", "published", "ours", "ratio", "")
    return markdown.table(heads, cells, right=(2, 3, 4))


def page() -> str:
    """Return the page, made from the other pages."""
    pages = {path.stem: path.read_text() for path in LAB.glob("*.md") if path != PAGE}
    lines, words = [_HEAD], []
    for part in PARTS:
        rows = [judged(row, pages) for row in part.rows]
        words += [each.word for each in rows]
        lines += [f"## {part.title}", "", part.command, "", *table(rows), ""]
        if part.why:
            lines += [f"Why missed. {part.why}", ""]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words)))
    lines.insert(1, f"Of {len(words)} figures: {counts}.\n")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
