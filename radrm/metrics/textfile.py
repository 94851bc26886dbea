"""A file for the textfile collector of node_exporter, replaced as a whole."""

from __future__ import annotations

import os

from radrm.errors import Refused, UsageError
from radrm.host.storage.files import open_folder, write_durably

SUFFIX = ".prom"
_MODE = 0o644
"""node_exporter runs as a user of its own."""


def checked(path: str) -> str:
    """Return a path for `write_textfile`. Raises `UsageError` for a name that is never read."""
    if not path.endswith(SUFFIX) or os.path.basename(path).startswith("."):
        raise UsageError(f"{path}: node_exporter reads only files NAME{SUFFIX}; name one")
    return os.path.abspath(path)


def write_textfile(path: str, text: bytes) -> None:
    """Put `text` into a file that others can read: a reader sees the old one or the new one.

    Neither the file nor its folder may be reached by a link at its own name: a link in place of
    the file is replaced, one in place of the folder refused. Raises `Refused`.
    """
    folder, name = os.path.split(path)
    try:
        fd = open_folder(folder)
        try:
            # Through the descriptor, so that nobody exchanges the folder meanwhile.
            write_durably(f"/proc/self/fd/{fd}/{name}", text, _MODE)
        finally:
            os.close(fd)
    except OSError as error:
        if os.path.islink(folder):
            raise Refused(f"{folder} is a link; name the folder that it leads to") from error
        raise Refused(
            f"{path} cannot be written: {error.strerror}; the folder must exist, and be yours to "
            "write in"
        ) from error
