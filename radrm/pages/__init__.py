"""Layer 6: HTML and SVG that the web page and `radrm report --html` share; no network.

The files, in the order in which they may import one another:
    style     the stylesheet: light and dark by custom properties
    charts/   curves, bars and Gantt charts as figures
"""
