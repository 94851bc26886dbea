"""The places that a daemon has opened and goes on to name: held by descriptor, and looked at again.

Theory of operation. A person may remove, move or replace a folder under a running daemon, or point
a link elsewhere; another daemon may make it anew. The descriptor keeps the inode from being given
out again. So a path that leads to another inode, or to nothing, is no longer the place that was
opened, and nothing may be written or taken there by name.
"""

from __future__ import annotations

import os

from radrm.errors import StoreError, plain

_GONE = FileNotFoundError, NotADirectoryError


class HomeLost(StoreError):
    """A place of the daemon's home is not the one that it has opened: the daemon ends."""


class Held:
    """Places by their paths. A few microseconds for each look."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int, int]] = {}
        """The descriptor, device and inode of each."""

    def hold(self, *paths: str) -> None:
        """Hold what is there now. Raises `OSError`."""
        for path in paths:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            found = os.fstat(fd)
            self._places[path] = fd, found.st_dev, found.st_ino

    def lost(self) -> str | None:
        """The first path that does not lead to the held place any more. A disk that does not
        answer proves nothing."""
        for path, (_, device, inode) in self._places.items():
            try:
                found = os.stat(path)
            except _GONE:
                return path
            except OSError:
                continue
            if (found.st_dev, found.st_ino) != (device, inode):
                return path
        return None

    def check(self) -> None:
        """Raise `HomeLost` unless all paths lead where they led."""
        path = self.lost()
        if path is not None:
            raise HomeLost(
                f"{plain(path)} was removed or replaced while this daemon used it, so it ends and "
                "jobs run on; start another one: radrm daemon"
            )

    def __del__(self) -> None:
        while self._places:
            os.close(self._places.popitem()[1][0])
