"""The command of figures for monitoring."""

from __future__ import annotations

from radrm.wings import Command, Wing

WING = Wing(
    commands={
        "metrics": Command(
            *("Pages and programs", "Print or serve figures for Prometheus and Grafana."),
            "radrm.metrics.command",
        )
    }
)
