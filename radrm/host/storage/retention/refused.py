"""Files that lay in the spool and were no envelopes: removed when old, or too many.

Their names are tickets that the daemon drew when it moved them, so the name says when that was:
the file's own times belong to its user. Only regular files with such a name are removed, from a
folder that is the daemon's own, and none is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator

from radrm.host.storage.files import open_folder
from radrm.host.storage.spool import ENVELOPE, SUFFIX, kind_of
from radrm.host.storage.tickets import drawn_s

MOST_FILES = 10_000
"""The oldest above this number go, whatever their size."""
MOST_LISTED = 200_000
"""Names that one sweep looks at. The next sweeps see the rest."""
_AT_ONCE = 200
"""Names of one piece."""


def remove_old(path: str, before_s: float, most_bytes: float) -> Generator[None, None, int]:
    """Remove the files that came before then (epoch seconds), and the oldest until the others are
    few enough and have at most `most_bytes`. Yields between pieces; returns how many went. Raises
    `OSError`."""
    try:
        folder = open_folder(path)
    except FileNotFoundError:
        return 0
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return 0
        names = yield from _names(folder)
        count, kept_bytes = 0, 0
        for place, name in enumerate(names):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                kept_bytes += 512 * found.st_blocks
                old = drawn_s(name.removesuffix(SUFFIX)) < before_s
                if old or kept_bytes > most_bytes or place >= MOST_FILES:
                    os.unlink(name, dir_fd=folder)
                    count += 1
            if place % _AT_ONCE == 0:
                yield
        return count
    finally:
        os.close(folder)


def _names(folder: int) -> Generator[None, None, list[str]]:
    """The names of refused files, the newest first."""
    names: list[str] = []
    with os.scandir(folder) as entries:
        for place, entry in enumerate(entries):
            if kind_of(entry.name) is ENVELOPE:
                names.append(entry.name)
            if place % (10 * _AT_ONCE) == 0:
                yield
            if place >= MOST_LISTED:
                break
    return sorted(names, reverse=True)
