"""How to reach a Jupyter server that a job has started: one line, where it can be said for sure.

Only for a user who came by ssh: the variable SSH_CONNECTION then holds the address of this server
as it is known outside.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_URL = re.compile(rb"https?://([A-Za-z0-9.-]{1,253}):([0-9]{2,5})/[^\s?]{0,200}\?token=")
_KEPT = 600
"""Bytes of earlier output that may begin an address: no match is longer."""
_SSH_PORT = "22"


class JupyterHint:
    """Looks for the address that Jupyter prints."""

    def __init__(self, environment: Mapping[str, str], user: str) -> None:
        words = environment.get("SSH_CONNECTION", "").split()
        self._server = words[2:4] if len(words) == 4 else None
        self._user = user
        self._rest = b""

    def see(self, data: bytes) -> str | None:
        """Return the line once, when the output has shown the address; else None."""
        if self._server is None:
            return None
        text = self._rest + data
        self._rest = text[-_KEPT:]
        found = _URL.search(text)
        if found is None:
            return None
        address, port = self._server
        self._server = None
        host, at = found[1].decode(), found[2].decode()
        other = "" if port == _SSH_PORT else f"-p {port} "
        tunnel = f"ssh -N {other}-L {at}:{host}:{at} {self._user}@{address}"
        return f"to open this address on your own machine, run there: {tunnel}"
