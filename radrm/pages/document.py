"""A page as one HTML file: no script, nothing from the network, readable without colours.

It follows the reader's choice of light or dark, and prints in black on white.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from radrm.pages.charts.text import safe
from radrm.pages.style import CHARTS, THEME

_STYLE = """
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1.5rem 1rem;
  background: var(--back); color: var(--ink); }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; break-after: avoid; }
p { margin: .2rem 0; max-width: 54rem; }
.soft { color: var(--soft); }
.facts { display: grid; gap: .7rem; padding: 0; margin: 1rem 0; list-style: none;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
.facts li { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.facts b { display: block; font-size: 1.45rem; line-height: 1.2; font-weight: 600; }
.facts span { color: var(--soft); font-size: .85rem; }
.side { display: grid; gap: 1.2rem 2rem; margin: 0 0 1.2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); }
.side > *, .table { min-width: 0; }
.table { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
th { font-size: .8em; letter-spacing: .03em; color: var(--soft); }
.number { text-align: right; }
td:first-child { max-width: 20rem; overflow: hidden; text-overflow: ellipsis; }
.total tbody tr:last-child { font-weight: bold; }
@media print { body { max-width: none; padding: 0; font-size: 11px; } .soft { color: #444; }
  .facts li { border: 1px solid var(--rule); } .chart.wide .drawing svg { min-width: 0; }
  .table { overflow: visible; } tr { break-inside: avoid; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, body: Iterable[str]) -> str:
    """Return an HTML document of these parts, which are HTML; `title` is text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(title)}</title>\n<style>{THEME}{CHARTS}{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{safe(title)}</h1>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def table(
    columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]], *, total: bool = False
) -> str:
    """Return a table: the titles of its columns and whether they are of numbers, then its cells.

    `total`: the last row is a sum.
    """
    kinds = [' class="number"' if number else "" for _, number in columns]
    head = "".join(
        f'<th scope="col"{kind}>{safe(title)}</th>'
        for kind, (title, _) in zip(kinds, columns, strict=True)
    )
    lines = "\n".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{_cell(cell, kind)}</td>" for kind, cell in zip(kinds, cells, strict=True)
        )
        + "</tr>"
        for cells in rows
    )
    return (
        f'<div class="table{" total" if total else ""}"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody>\n</table></div>"
    )


def _cell(text: str, kind: str) -> str:
    return safe(text) if kind else f"<bdi>{safe(text)}</bdi>"


def facts(found: Iterable[tuple[str, str]]) -> str:
    """Return the main figures: each an amount, and what it is."""
    items = "".join(
        f"<li><b>{safe(amount)}</b><span>{safe(of)}</span></li>" for amount, of in found
    )
    return f'<ul class="facts">{items}</ul>'


def paragraph(text: str, *, soft: bool = False) -> str:
    """Return a paragraph; a `soft` one is less important."""
    return f'<p class="soft">{safe(text)}</p>' if soft else f"<p>{safe(text)}</p>"


def heading(text: str) -> str:
    """Return the heading of a section."""
    return f"<h2>{safe(text)}</h2>"


def beside(*figures: str) -> str:
    """Return figures that stand beside each other where the page is wide enough."""
    return f'<div class="side">{"".join(figures)}</div>'
