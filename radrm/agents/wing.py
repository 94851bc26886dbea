"""The command of coding agents."""

from __future__ import annotations

from radrm.wings import Command, Wing

WING = Wing(
    commands={
        "mcp": Command(
            *("Pages and programs", "Serve tools to a coding agent (MCP)."),
            "radrm.agents.command",
        )
    }
)
