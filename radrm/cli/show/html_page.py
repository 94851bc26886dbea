"""The tables of a terminal as sections of a page."""

from __future__ import annotations

from radrm.cli.show.columns import Rows
from radrm.pages.document import document, heading, paragraph, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from radrm.cli.show.styled import Part


def web_page(
    title: str, sections: Iterable[tuple[str, Sequence[Part]]], lead: Iterable[str] = ()
) -> str:
    """Return an HTML document: the `lead` (HTML), then a heading for each section. Names of users
    are escaped."""
    body = list(lead)
    for name, parts in sections:
        body.append(heading(name))
        body += [_part(part) for part in parts]
    return document(title, body)


def _part(part: Part) -> str:
    if isinstance(part, Rows):
        columns = [(column.title, column.right) for column in part.columns]
        cells = ([cell.plain for cell in row] for row in part.rows)
        return table(columns, cells, total=True)
    return "\n".join(paragraph(line, soft=True) for line in part.plain_lines())
