"""The command of the web page."""

from __future__ import annotations

from radrm.wings import Command, Wing

WING = Wing(
    commands={
        "serve": Command(
            *("Pages and programs", "Show GPUs, jobs, logs and the history as a live web page."),
            "radrm.web.command",
        )
    }
)
