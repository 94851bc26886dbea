"""The table of the metrics in docs/metrics.md, made from the code.

    python -m tools.metrics_reference

writes it between its two markers. A test fails while the table is out of date.
"""

from __future__ import annotations

from pathlib import Path

from radrm.daemon.counting.counts import DECISION_BOUNDS_S, WAIT_BOUNDS_S
from radrm.metrics.table import METRICS

DOCUMENT = Path(__file__).parents[1] / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"
_BOUNDS = {"radrm_queue_wait_seconds": WAIT_BOUNDS_S, "radrm_decision_seconds": DECISION_BOUNDS_S}


def reference() -> str:
    """Return the table, and the bounds of the histograms."""
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in METRICS
    ]
    bounds = [
        f"- `{name}`: {', '.join(f'{bound:.10g}' for bound in bounds)}."
        for name, bounds in _BOUNDS.items()
    ]
    return "\n".join(
        [
            *("| metric | type | labels | meaning |", "|---|---|---|---|", *rows, ""),
            *("The upper bounds of the histograms' buckets, in seconds:", "", *bounds),
        ]
    )


def placed(document: str) -> str:
    """Return the document with the table of now. Raises `LookupError` without the markers."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise LookupError(f"the markers {BEGIN} and {END} are not there")
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(placed(DOCUMENT.read_text("utf-8")), "utf-8")
