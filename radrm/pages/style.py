"""The stylesheet of pages and charts: light and dark by custom properties.

`data-theme="light"` or `"dark"` at the root chooses one; without it the reader's setting does.
Print is always light.
"""

from __future__ import annotations

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
