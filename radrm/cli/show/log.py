"""A job's log on standard output or error."""

from __future__ import annotations

import os
import sys

from radrm.client.tail import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from radrm.client.tail import Write


def log_writer(user: str | None, stream: TextIO | None = None) -> Write:
    """A function that writes a log of `user` to `stream` (None: standard output). On a terminal,
    it makes control characters in another user's log visible. `user` None: it is no terminal."""
    target = sys.stdout if stream is None else stream

    def write(data: bytes) -> Any:
        target.buffer.write(data)
        target.buffer.flush()

    if user is None or not target.isatty() or user == own_name():
        return write
    return harmless(write)


def own_name() -> str | None:
    """The name of this process's user; None for one without an entry."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
