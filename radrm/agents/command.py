"""`radrm mcp`: tools for coding agents, on standard input and output."""

from __future__ import annotations

import sys

from radrm.cli.parameters import FLAG, Parameter
from radrm.errors import RadrmError, UsageError

_ALLOW = "Offer tools that submit, cancel, hold, release, requeue and edit your jobs, too."
MCP_PARAMETERS = (Parameter("allow_commands", FLAG, _ALLOW, flags=("--allow-commands",)),)
_OF_THE_EXTRA = frozenset({"mcp", "mcp_types", "pydantic", "anyio"})


def mcp(allow_commands: bool) -> None:
    """Serve tools to a coding agent (MCP).

    MCP is the Model Context Protocol. The agent starts this command, and speaks with it on
    standard input and output. Without --allow-commands the tools change nothing. It needs the
    extra `mcp`.

    \b
    Examples:
      claude mcp add radrm -- radrm mcp
      radrm mcp --allow-commands
    """
    if sys.stdin.isatty():
        raise UsageError(
            "radrm mcp is started by a coding agent, not typed; to set one up: "
            "claude mcp add radrm -- radrm mcp"
        )
    try:
        from radrm.agents.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        from radrm.extras import lacks

        raise RadrmError(lacks("radrm mcp", "the MCP SDK", "mcp")) from None
    serve(allow_commands)
