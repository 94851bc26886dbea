"""Files that lay in the spool and were no envelopes: removed when old, or too many bytes.

Their names are tickets that the daemon drew when it moved them, so the name says when that was:
the file's own times belong to its user. Only regular files with such a name are removed, from a
folder that is the daemon's own, and none is opened.

Any user can have files refused, as many as the disk holds. So the work yields between pieces, and
of the files that are too much only the oldest `MOST_HELD` are held and removed at a time.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Callable, Generator

from radrm.host.storage.files import open_folder
from radrm.host.storage.spool import ENVELOPE, SUFFIX, kind_of
from radrm.host.storage.tickets import drawn_s

MOST_HELD = 10_000


def remove_old(
    path: str, before_s: float, most_bytes: float, spent: Callable[[], bool]
) -> Generator[None, None, int]:
    """Remove the files that came before then (epoch seconds), and the oldest until the others
    have at most `most_bytes`. Yields when a piece has `spent` its time. Returns how many went.
    Raises `OSError`."""
    try:
        folder = open_folder(path)
    except FileNotFoundError:
        return 0
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return 0
        count, left_bytes = 0, 0
        oldest: list[tuple[float, str, int]] = []  # a heap with the newest of them first
        with os.scandir(folder) as entries:
            for entry in entries:
                size = _size(entry)
                came_s = drawn_s(entry.name.removesuffix(SUFFIX)) if size is not None else 0.0
                if size is not None and came_s < before_s:
                    count += _remove(folder, entry.name)
                elif size is not None:
                    left_bytes += size
                    push = heapq.heappush if len(oldest) < MOST_HELD else heapq.heappushpop
                    push(oldest, (-came_s, entry.name, size))
                if spent():
                    yield
        for _, name, size in sorted(oldest, reverse=True):
            if left_bytes <= most_bytes:
                break
            count += _remove(folder, name)
            left_bytes -= size
            if spent():
                yield
        return count
    finally:
        os.close(folder)


def _size(entry: os.DirEntry[str]) -> int | None:
    """The bytes on the disk of a refused file; None for anything else."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    own = kind_of(entry.name) is ENVELOPE and stat.S_ISREG(status.st_mode)
    return 512 * status.st_blocks if own else None


def _remove(folder: int, name: str) -> int:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return 0
    return 1
