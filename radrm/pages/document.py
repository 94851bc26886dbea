"""A page as one HTML file, and its stylesheet: light and dark by custom properties.

`data-theme="light"` or `"dark"` at the root chooses one; without it the reader's setting does.
Print is always light.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from radrm.pages.charts.frame import safe

_LIGHT = {
    "back": "#ffffff",
    "panel": "#f6f7f9",
    "ink": "#1b1f24",
    "soft": "#59636e",
    "rule": "#d5dae0",
    "blue": "#0072b2",
    "orange": "#d55e00",
    "green": "#009e73",
    "purple": "#b8548f",
    "yellow": "#e0a100",
    "sky": "#56b4e9",
    "grey": "#8b949e",
}
_DARK = {
    "back": "#14171b",
    "panel": "#1d2126",
    "ink": "#e6e9ed",
    "soft": "#a0a9b3",
    "rule": "#363c44",
    "blue": "#3d9ddb",
    "orange": "#f07d33",
    "green": "#23b98d",
    "purple": "#d982b5",
    "yellow": "#e9b935",
    "sky": "#85cbf3",
    "grey": "#77818c",
}
_COLOURS = ("blue", "orange", "green", "purple", "yellow", "sky", "grey", "ink")


def _properties(theme: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in theme.items())


THEME = f"""
:root {{ color-scheme: light dark; {_properties(_LIGHT)} }}
:root[data-theme="light"] {{ color-scheme: light; }}
@media screen and (prefers-color-scheme: dark) {{
  :root:not([data-theme="light"]) {{ {_properties(_DARK)} }}
}}
@media screen {{ :root[data-theme="dark"] {{ color-scheme: dark; {_properties(_DARK)} }} }}
@media print {{ :root {{ color-scheme: light; }} }}
"""

CHARTS = (
    """
.chart { margin: 0; min-width: 0; break-inside: avoid; }
.chart figcaption { font-weight: 600; margin-bottom: .25rem; }
.chart .drawing { overflow-x: auto; }
.chart .drawing svg { display: block; width: 100%; height: auto; }
.chart.wide .drawing svg { min-width: 60rem; }
.chart .note { color: var(--soft); font-size: .85rem; margin: .2rem 0 0; }
.chart text { font: 12px system-ui, sans-serif; fill: var(--ink); direction: ltr;
  unicode-bidi: isolate; }
.chart .tick, .chart .nothing { fill: var(--soft); }
.chart .middle { text-anchor: middle; }
.chart .end { text-anchor: end; }
.chart .inside { font-size: 11px; paint-order: stroke; stroke: var(--back); stroke-width: 3px;
  stroke-linejoin: round; pointer-events: none; }
.chart path { fill: none; vector-effect: non-scaling-stroke; }
.chart .grid { stroke: var(--rule); stroke-width: 1; }
.chart .mark { stroke: var(--soft); stroke-width: 1; }
.chart .limit { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 3 3; }
.chart .hatch { stroke: var(--back); stroke-width: 1.6; vector-effect: none; }
.chart .unknown { fill: var(--panel); stroke: var(--rule); stroke-dasharray: 2 3; }
.chart .dot { fill: var(--back); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; padding: 0;
  margin: 0 0 .3rem; font-size: .85rem; color: var(--soft); }
.legend li { display: flex; align-items: center; gap: .4rem; min-width: 0; }
.legend bdi { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; max-width: 16rem; }
.legend .sample { flex: none; }
@media (max-width: 40rem) { .chart:not(.wide) text { font-size: 16px; } }
"""
    + "\n".join(
        f".chart .fill-{name} {{ fill: var(--{name}); }}\n"
        f".chart .open-{name} {{ fill: var(--{name}); stroke: var(--{name}); }}\n"
        f".chart .area-{name} {{ fill: var(--{name}); fill-opacity: .18; }}\n"
        f".chart .line-{name} {{ stroke: var(--{name}); stroke-width: 1.8; }}"
        for name in _COLOURS
    )
    + '\n.chart [class^="open-"] { fill-opacity: .25; }\n'
)
"""What the figures of `radrm.pages.charts` need beside `THEME`."""


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
    return f"<h2>{safe(text)}</h2>"


def beside(*figures: str) -> str:
    """Return figures that stand beside each other where the page is wide enough."""
    return f'<div class="side">{"".join(figures)}</div>'
