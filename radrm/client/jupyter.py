"""A Jupyter server in a job: its command, and how to reach it from the user's own machine."""

from __future__ import annotations

import os
import re

from radrm.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_URL = re.compile(
    rb"(https?://([A-Za-z0-9.-]{1,253}):([0-9]{2,5})/[!->@-~]{0,200}\?token=[!-~]{1,200})\s"
)
_KEPT = 800
"""Bytes of earlier output that may begin an address: no match is longer."""
_SSH_PORT = "22"


def jupyter_command(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The command of `radrm run --jupyter`: JupyterLab, with these arguments.

    Raises `Refused` if it is not installed."""
    from shutil import which  # only notebooks need it

    found = which("jupyter-lab", path=environment.get("PATH"))
    if found is None:
        raise Refused(
            "JupyterLab is not installed: jupyter-lab is not on your PATH; activate the "
            "environment of your notebooks, or install it there: python3 -m pip install jupyterlab"
        )
    # Jupyter refuses root without being told; and its log would bury the address.
    root = ("--allow-root",) if os.geteuid() == 0 else ()
    return (found, "--no-browser", "--log-level=WARN", *root, *arguments)


class JupyterHint:
    """Looks for the address that Jupyter prints.

    It is shown for a user who came by ssh: SSH_CONNECTION then holds the address of this server as
    it is known outside. `asked`: to others, too, with the server's name."""

    def __init__(self, environment: Mapping[str, str], user: str, asked: bool = False) -> None:
        words = environment.get("SSH_CONNECTION", "").split()
        self._server: tuple[str, str] | None = None
        if len(words) == 4:
            self._server = words[2], words[3]
        elif asked:
            self._server = os.uname().nodename, _SSH_PORT
        self._user = user
        self._rest = b""

    def see(self, data: bytes) -> Sequence[str]:
        """Return lines for the user, once, when the output has shown the address."""
        if self._server is None:
            return ()
        text = self._rest + data
        self._rest = text[-_KEPT:]
        found = _URL.search(text)
        if found is None:
            return ()
        (address, port), self._server = self._server, None
        url, host, at = (word.decode() for word in found.groups())
        other = "" if port == _SSH_PORT else f"-p {port} "
        local = url.replace(f"//{host}:", "//localhost:", 1)
        return (
            f"on your own machine, run: ssh -N {other}-L {at}:{host}:{at} {self._user}@{address}",
            f"then open there: {local}",
        )
