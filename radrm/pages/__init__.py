"""Layer 6: HTML and SVG that the web page and `radrm report --html` share; no network."""
