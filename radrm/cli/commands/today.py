"""`radrm` alone on a terminal: your jobs, the server's GPUs, the queue, and what to type next."""

from __future__ import annotations

import sys

from radrm.cli.show.next import are_wanted, overview
from radrm.cli.show.styled import Styled, show
from radrm.client.connection import Client
from radrm.client.text import my_name, warn
from radrm.errors import Refused, Unreachable
from radrm.host.storage.paths import servers_own

_ROWS = 3
_OF_ONES_OWN = (
    ("radrm daemon --gpus sim:2xA100-40GB", "try it on simulated GPUs"),
    ('sudo "$(command -v radrm)" service install', "serve all users of this machine"),
)
_OF_THE_SERVER = (("radrm submit -- python train.py", "is kept, and starts once it runs again"),)
_ALWAYS = (("radrm doctor", "what is wrong here"), ("radrm --help", "all commands"))


def today() -> int:
    """Show what a user looks for first, in ten lines. Returns the exit code."""
    with Client() as client:
        try:
            client.connect(patient=False)
        except Unreachable as error:
            return _without_daemon(client, error)
        page = client.ask("page", user=my_name(), offset=0, limit=_ROWS, own=True)
        devices = client.ask("gpus")
    if "own" not in page:
        raise Refused("the daemon is of another version; restart it: running jobs go on")
    page["own"]["hints"] &= are_wanted()
    show(*overview(page, devices))
    return 0


def _without_daemon(client: Client, error: Unreachable) -> int:
    for line in error.lines:
        warn(line)
    server = servers_own()
    its = _OF_THE_SERVER if server is not None and server in client.candidates else _OF_ONES_OWN
    found = (*its, *_ALWAYS)
    width = max(len(command) for command, _ in found)
    sys.stderr.flush()
    for command, reason in found:
        shown = Styled(f"  {command.ljust(width)}", cut=True)
        shown.append(f"   {reason}", "dim")
        show(shown)
    return error.exit_code
