"""The command `config reload`: start the daemon anew, with its configuration as it is now."""

from __future__ import annotations

from radrm.daemon.answers.selection import is_administrator
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.errors import Refused


def reload(loop: Loop, request: Request) -> None:
    """Replace the daemon after this answer. Raises `RadrmError` for a wrong configuration."""
    if not is_administrator(request.client.uid):
        raise Refused("only root and the daemon's own user may reload the configuration")
    loop.parts.check()
    loop.reload_soon()
