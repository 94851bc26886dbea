"""Layer 6: HTML and SVG that the web page and `radrm report --html` share; no network.

The files, in the order in which they may import one another:
    charts/   curves, bars and Gantt charts as figures
    document  a page as one HTML file, and its stylesheet
    summary   an overview of a time in words
    overview  an overview of a time as figures and tables
"""
