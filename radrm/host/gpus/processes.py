"""The processes on GPUs: whose they are, and what they run.

A process chooses its own name and arguments, and terminals show them. So they are shortened and
cleaned. Only the pid is known of a process that is hidden in a container or has just ended.
`psutil` is not used: its `name()` and `cmdline()` read a whole command line, which a process can
make gigabytes long. `procfs` reads a bounded part.
"""

from __future__ import annotations

import pwd
from collections.abc import Mapping

from radrm.core.records import DeviceProcess
from radrm.errors import plain
from radrm.host.processes.procfs import read_stat, start_of, value_of

MOST = 64
"""Number of processes that are described per device, of jobs and of others: those with most
memory."""
LONGEST = 160
"""Characters of a command that are shown."""
_MOST_REMEMBERED = 1024
_LOOKED_AT = 4096
"""Bytes that are read of a command line."""

_Looks = tuple["str | None", "str | None"]
Owners = Mapping[int, "tuple[int, int] | None"]
"""The attempt (job id, serial) of each process; None of one that belongs to no job."""


class Processes:
    """Looks at each process once and remembers it, because both look-ups can block.

    A command line is read from the memory of its process; a user name may come from a network.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Looks] = {}
        self._names: dict[int, str] = {}

    def describe(
        self,
        held: Mapping[int, int | None],
        owners: Owners | None = None,
        activities: Mapping[int, float] | None = None,
    ) -> tuple[DeviceProcess, ...]:
        """Describe the largest processes first. `held`: MiB by process id, None if unknown.

        `activities`: the SM activity of each process of which it is known.
        """
        owners, activities = owners or {}, activities or {}
        order = sorted(held, key=lambda pid: (-(held[pid] or 0), pid))
        jobs = [pid for pid in order if owners.get(pid) is not None][:MOST]
        others = [pid for pid in order if owners.get(pid) is None][:MOST]
        shown = {*jobs, *others}
        return tuple(
            DeviceProcess(pid, held[pid], *self._look(pid), owners.get(pid), activities.get(pid))
            for pid in order
            if pid in shown
        )

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
            self._names[uid] = login(uid)
        return self._names[uid]


def login(uid: int) -> str:
    """Return the name of a user, or the number of one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return str(uid)


def clean(text: str) -> str:
    """Return the text as one short line without control characters."""
    shown = plain(text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _status(pid: int) -> tuple[int | None, str | None]:
    """Return the real user id and the short name."""
    status = start_of(f"/proc/{pid}/status", _LOOKED_AT)
    uid, name = value_of(status, b"Uid").split()[:1], value_of(status, b"Name")
    return (
        int(uid[0]) if uid and uid[0].isdigit() and len(uid[0]) <= 10 else None,
        clean(name.decode("utf-8", "replace")) if name else None,
    )


def _command(pid: int) -> str | None:
    """Return the command line; None for a zombie or a kernel thread, which have none."""
    words = start_of(f"/proc/{pid}/cmdline", _LOOKED_AT).rstrip(b"\0 ").replace(b"\0", b" ")
    return clean(words.decode("utf-8", "replace")) or None
