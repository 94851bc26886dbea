"""Files that lay in the spool and were no envelopes: removed when old, or too many bytes.

Their names are tickets that the daemon drew when it moved them, so the name says when that was:
the file's own times belong to its user. Only regular files with such a name are removed, from a
folder that is the daemon's own, and none is opened.

Any user can have files refused, as many as the disk holds. So the work yields between pieces, and
of the files that are too much only the oldest `MOST_HELD` are held and removed at a time.
"""

from __future__ import annotations

import heapq
import logging
import math
import os
import stat
import time
from collections.abc import Callable, Generator

from radrm.host.storage.files import open_folder
from radrm.host.storage.spool import ENVELOPE, SUFFIX, kind_of
from radrm.host.storage.tickets import drawn_s

log = logging.getLogger("radrm")

MOST_HELD = 10_000
PIECE_S = 0.004
"""Real seconds of a piece. What has begun is finished."""
_REST_S = 0.04


class RefusedFiles:
    """Keeps the folder within its size between two sweeps, also while the store cannot be written:
    refused files may be what fills its disk. `came`: the bytes that were refused so far."""

    def __init__(
        self,
        path: str,
        most_bytes: float,
        came: Callable[[], int],
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._came = came
        self._tick = tick
        self._seen = 0
        self._until_s = self._due_s = 0.0
        self._pieces: Generator[None, None, int] | None = None

    @property
    def due_in_s(self) -> float:
        """Real seconds until the next piece; infinite without one."""
        return math.inf if self._pieces is None else max(0.0, self._due_s - self._tick())

    def work(self) -> None:
        """Do a piece if one is due. A quarter of the size is refused before the next look."""
        if self._pieces is None:
            if self._came() - self._seen <= self._most_bytes / 4:
                return
            self._seen = self._came()
            self._pieces = remove_old(self._path, -math.inf, self._most_bytes, self._spent)
        now_s = self._tick()
        if now_s >= self._due_s:
            self._until_s, self._due_s = now_s + PIECE_S, now_s + _REST_S
            self._step()

    def finish(self) -> None:
        """Remove what is too much now, at once: a start needs room on the disk."""
        self._until_s = math.inf
        self._pieces = remove_old(self._path, -math.inf, self._most_bytes, self._spent)
        self._step()

    def _step(self) -> None:
        assert self._pieces is not None
        try:
            next(self._pieces)
            return
        except StopIteration as end:
            if end.value:
                log.warning("%d refused file(s) were too much in %s", end.value, self._path)
        except OSError as error:
            log.error("refused files cannot be removed from %s: %s", self._path, error.strerror)
        self._pieces = None

    def _spent(self) -> bool:
        return self._tick() >= self._until_s


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
