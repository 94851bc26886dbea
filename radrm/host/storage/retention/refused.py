"""Files that lay in the spool and were no envelopes: removed when old, or too many bytes.

Their names are tickets that the daemon drew when it moved them, so the name says when that was:
the file's own times belong to its user. Only regular files with such a name are removed, from a
folder that is the daemon's own, and none is opened.
"""

from __future__ import annotations

import os
import stat
from itertools import islice

from radrm.host.storage.files import open_folder
from radrm.host.storage.spool import ENVELOPE, SUFFIX, kind_of
from radrm.host.storage.tickets import drawn_s

MOST_LISTED = 10_000
"""Names that one sweep looks at. The next sweeps see the rest."""


def remove_old(path: str, before_s: float, most_bytes: float) -> int:
    """Remove the files that came before then (epoch seconds), and the oldest until the others
    have at most `most_bytes`. Returns how many went. Raises `OSError`."""
    try:
        folder = open_folder(path)
    except FileNotFoundError:
        return 0
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return 0
        found = sorted(_files(folder), reverse=True)
        count, kept_bytes = 0, 0
        for name, size in found:
            kept_bytes += size
            if drawn_s(name.removesuffix(SUFFIX)) < before_s or kept_bytes > most_bytes:
                os.unlink(name, dir_fd=folder)
                count += 1
        return count
    finally:
        os.close(folder)


def _files(folder: int) -> list[tuple[str, int]]:
    """Name and size on the disk of each refused file."""
    found = []
    with os.scandir(folder) as entries:
        for entry in islice(entries, MOST_LISTED):
            status = entry.stat(follow_symlinks=False)
            if kind_of(entry.name) is ENVELOPE and stat.S_ISREG(status.st_mode):
                found.append((entry.name, 512 * status.st_blocks))
    return found
