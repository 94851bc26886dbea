"""A job's log on standard output."""

from __future__ import annotations

import os
import sys

from radrm.client.tail import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from radrm.client.tail import Write


def log_writer(user: str | None) -> Write:
    """A function that writes a log of `user` to standard output. On a terminal, it makes control
    characters in another user's log visible. `user` None: standard output is no terminal."""

    def write(data: bytes) -> Any:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    if user is None or not sys.stdout.isatty() or user == _own_name():
        return write
    return harmless(write)


def _own_name() -> str | None:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
