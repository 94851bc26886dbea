"""The command `config reload`: read the configuration again."""

from __future__ import annotations

from radrm.daemon.answers.selection import is_administrator
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.views.documents import Document
from radrm.errors import Refused


def reload(loop: Loop, request: Request) -> list[Document]:
    """Apply the configuration as it is now. Returns each setting that has changed."""
    if not is_administrator(request.client.uid):
        raise Refused("only root and the daemon's own user may reload the configuration")
    return [
        {"key": each.key, "applied": not each.at_start, "line": str(each)} for each in loop.reload()
    ]
