"""Charts as text: each function returns one `<figure>` of HTML with an SVG and its legend.

They are pure functions of data, need no script and no style attribute, and are well-formed XML.
`radrm.pages.document` has the classes. Unknown values (None, not finite) are gaps, never zero.
Names are escaped. Colour is never the only sign: lines have dashes, areas and bars have patterns.

The files, in the order in which they may import one another:
    frame    the figure around a chart: texts, colours, axes, legend, description
    curves   lines and areas over time
    bars     bars and histograms
    gantt    who held what, and when
"""

from radrm.pages.charts.bars import Bin, bars
from radrm.pages.charts.curves import Limit, Series, curves
from radrm.pages.charts.frame import Axis, Kind, counts, numbers, short_span, sizes
from radrm.pages.charts.gantt import GanttBar, GanttRow, gantt

__all__ = [
    "Axis",
    "Bin",
    "GanttBar",
    "GanttRow",
    "Kind",
    "Limit",
    "Series",
    "bars",
    "counts",
    "curves",
    "gantt",
    "numbers",
    "short_span",
    "sizes",
]
