"""Who besides root can change a file, or anything on the way to it.

Theory of operation. A path is followed one component at a time, links included, as the kernel
follows it. Each folder, link and file on that way must belong to root, and nobody else may write
it. In a sticky folder (such as /tmp) only the owner of an entry can replace it. But a reboot, or
whoever removes old files there, may take the entry away, and then anybody can make another. So a
sticky folder may lie on the way to what is used once, and not on the way to what must last.

POSIX ACLs are covered: a write entry shows in the group bits of the mode (acl(5)). NFSv4 ACLs,
the server behind a network file system, and capabilities are not looked at.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable

from msgspec import Struct

_MOST_LINKS = 40
"""As in the kernel."""
_MOST_ENTRIES = 1_000_000
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Fault(Struct, frozen=True):
    """A place that somebody besides root can change."""

    path: str
    why: str
    """What is wrong with it, as the rest of a sentence: `is writable by all (mode 1777)`."""
    mode_only: bool = False
    """It is root's, and only its mode is wrong."""

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


class Ownership:
    """Checks places, and remembers which are sound. `trusted`: the users who may write them.
    `lasting`: no sticky folder may lie on the way."""

    def __init__(
        self,
        trusted: frozenset[int] = frozenset({0}),
        lstat: Callable[[str], os.stat_result] = os.lstat,
        lasting: bool = False,
    ) -> None:
        self._trusted = trusted
        self._lstat = lstat
        self._lasting = lasting
        self._sound: dict[str, os.stat_result] = {}
        self._searched: set[str] = set()
        self._entries = 0

    def way(self, path: str) -> Fault | None:
        """The first thing on the way to an absolute `path`, itself included, that another user can
        change. A path that does not exist is sound if nobody else can make it. Raises OSError."""
        return self._follow(path)[0]

    def tree(self, path: str) -> Fault | None:
        """The same for `path` and everything below it, where its links lead included."""
        waiting = [path]
        while waiting:
            fault, real = self._follow(waiting.pop())
            if fault is not None:
                return fault
            if real is None or real in self._searched or not self._is_folder(real):
                continue
            self._searched.add(real)
            if self._sound[real].st_mode & _OTHERS_WRITE:  # a sticky one
                return Fault(real, _writable(self._sound[real]))
            for name in os.listdir(real):
                self._entries += 1
                if self._entries > _MOST_ENTRIES:
                    return Fault(path, f"holds more than {_MOST_ENTRIES:,} files to check")
                waiting.append(os.path.join(real, name))
        return None

    def _is_folder(self, real: str) -> bool:
        return stat.S_ISDIR(self._sound[real].st_mode)

    def _follow(self, path: str) -> tuple[Fault | None, str | None]:
        """The fault, and the place to which `path` leads; None for one that does not exist."""
        here, links = "/", 0
        fault = self._look("/")
        rest = deque(path.split("/"))
        while rest and fault is None:
            name = rest.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                here = os.path.dirname(here)
                continue
            entry = os.path.join(here, name)
            try:
                fault = self._look(entry)
            except (FileNotFoundError, NotADirectoryError):
                if self._sound[here].st_mode & _OTHERS_WRITE:
                    return Fault(here, _writable(self._sound[here])), None
                return None, None
            if fault is None and stat.S_ISLNK(self._sound[entry].st_mode):
                links += 1
                if links > _MOST_LINKS:
                    return Fault(path, f"leads on through more than {_MOST_LINKS} links"), None
                target = os.readlink(entry)
                rest.extendleft(reversed(target.split("/")))
                here = "/" if target.startswith("/") else here
            else:
                here = entry
        return fault, here

    def _look(self, entry: str) -> Fault | None:
        """Whether another user can change this one entry. Raises OSError if it is not there."""
        if entry in self._sound:
            return None
        found = self._lstat(entry)
        if found.st_uid not in self._trusted:
            return Fault(entry, f"belongs to user {found.st_uid}")
        kind = found.st_mode
        sticky = stat.S_ISDIR(kind) and kind & stat.S_ISVTX
        if not stat.S_ISLNK(kind) and kind & _OTHERS_WRITE and not sticky:
            return Fault(entry, _writable(found), mode_only=True)
        if sticky and kind & _OTHERS_WRITE and self._lasting:
            return Fault(entry, _writable(found))
        self._sound[entry] = found
        return None


def _writable(found: os.stat_result) -> str:
    who = "all" if found.st_mode & stat.S_IWOTH else f"group {found.st_gid}"
    return f"is writable by {who} (mode {stat.S_IMODE(found.st_mode):04o})"
