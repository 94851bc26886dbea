"""The parts of a page as one HTML file: no script, nothing from the network.

It follows the reader's choice of light or dark, and prints in black on white.
"""

from __future__ import annotations

from html import escape

from radrm.cli.show.columns import Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from radrm.cli.show.styled import Part

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; text-align: left; border-bottom: 1px solid #8884;
  white-space: nowrap; }
th { font-size: .8em; letter-spacing: .03em; }
.number { text-align: right; }
tbody tr:last-child { font-weight: bold; }
p { color: #777; margin: .4rem 0; }
@media print { :root { color-scheme: light; } body { margin: 0; } p { color: #444; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def web_page(title: str, sections: Iterable[tuple[str, Sequence[Part]]]) -> str:
    """An HTML document with a heading for each section. Names of users are escaped."""
    body = []
    for heading, parts in sections:
        body.append(f"<h2>{escape(heading)}</h2>")
        body += [_part(part) for part in parts]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _part(part: Part) -> str:
    if isinstance(part, Rows):
        return _table(part)
    return "\n".join(f"<p>{escape(line)}</p>" for line in part.plain_lines())


def _table(table: Rows) -> str:
    kinds = [' class="number"' if column.right else "" for column in table.columns]
    head = "".join(
        f"<th{kind}>{escape(column.title)}</th>"
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{escape(cell.plain)}</td>" for kind, cell in zip(kinds, cells, strict=True)
        )
        + "</tr>"
        for cells in table.rows
    )
    return (
        f"<div><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )
