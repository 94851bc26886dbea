"""The table of docs/prometheus.md, made from the code.

    python -m tools.metrics_reference

prints it. `tools/site_hooks.py` puts it into the page.
"""

from __future__ import annotations

from radrm.daemon.counting import DECISION_BOUNDS_S, WAIT_BOUNDS_S
from radrm.metrics.table import METRICS

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


if __name__ == "__main__":
    print(reference())
