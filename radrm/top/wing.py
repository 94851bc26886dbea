"""The command of the live view."""

from __future__ import annotations

from radrm.wings import Command, Wing

WING = Wing(
    commands={
        "top": Command(
            *("Jobs", "Show GPUs and jobs live, and give commands by key."),
            "radrm.top.command",
        )
    }
)
