"""Processes on a device that radrm did not start: whose they are, and what they run.

What a process calls itself is its own invention: it is cut short and cleaned, for people
read it in a terminal. A process of a container that is hidden from us, or one that has
just ended, is a number and nothing else.
"""

from __future__ import annotations

import pwd
from collections.abc import Mapping

from radrm.core.records import Stranger
from radrm.errors import plain
from radrm.host.attempts.procfs import read_stat, start_of

MOST = 32
"""Told of one device; the largest ones."""
LONGEST = 160
"""Characters of a command that are told."""
_MOST_REMEMBERED = 1024
_LOOKED_AT = 4096
"""Bytes of a command line: people are shown much less."""

_Looks = tuple["str | None", "str | None"]


class Strangers:
    """Looks at each process once: reading a command line can wait for the process itself,
    and looking up a user for a network."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Looks] = {}
        self._names: dict[int, str] = {}

    def describe(self, held: Mapping[int, int | None]) -> tuple[Stranger, ...]:
        """`held`: MiB by process id, None where unknown. The largest come first."""
        order = sorted(held, key=lambda pid: (-(held[pid] or 0), pid))
        return tuple(Stranger(pid, held[pid], *self._look(pid)) for pid in order[:MOST])

    def _look(self, pid: int) -> _Looks:
        stat = read_stat(pid) if pid > 0 else None
        if stat is None:
            return None, None
        key = pid, stat.start_ticks
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            uid, name = _status(pid)
            self._known[key] = self._user(uid), _command(pid) or (name and f"[{name}]")
        return self._known[key]

    def _user(self, uid: int | None) -> str | None:
        if uid is None:
            return None
        if uid not in self._names:
            if len(self._names) >= _MOST_REMEMBERED:
                self._names.clear()
            try:
                self._names[uid] = pwd.getpwuid(uid).pw_name
            except (KeyError, OSError):
                self._names[uid] = str(uid)
        return self._names[uid]


def clean(text: str) -> str:
    """One line of bounded length, without what would move a cursor."""
    shown = plain(text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _status(pid: int) -> tuple[int | None, str | None]:
    """The real user and the short name."""
    uid, name = None, None
    for line in start_of(f"/proc/{pid}/status", _LOOKED_AT).splitlines():
        if line.startswith(b"Uid:"):
            uid = int(line.split()[1])
        elif line.startswith(b"Name:"):
            name = clean(line[5:].strip().decode("utf-8", "replace"))
    return uid, name


def _command(pid: int) -> str | None:
    """None for a process without a command line: a zombie, or one of the kernel's own."""
    words = start_of(f"/proc/{pid}/cmdline", _LOOKED_AT).rstrip(b"\0 ").replace(b"\0", b" ")
    return clean(words.decode("utf-8", "replace")) or None
