"""Find out whether a daemon starts now. Only a client that has found none imports this.

A daemon needs a second until it answers, and until then nothing but its process tells of it: so
`radrm daemon &` and the next command, pasted together, work.
"""

from __future__ import annotations

import os
import stat
import time

from radrm.errors import StoreError, Unreachable
from radrm.host.storage.paths import not_running, paths_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from radrm.host.storage.paths import Paths

PATIENCE_S = 3.0
_LOOK_S = 0.05
LOOKS = 2
"""Looks in turn that find no daemon: a process that is being started has no command line yet."""
_YOUNG_S = 10.0
"""A process older than this is no daemon that starts: one of another home, or one that hangs."""
_MOST_BYTES = 1 << 20
_PROGRAMS = ("radrm", "radrm.cli.main")


def wait_for_start(
    candidates: Sequence[Paths], connect: Callable[[], bool], looks: int = LOOKS
) -> bool:
    """Call `connect` until it succeeds, as long as a daemon of these places starts; 3 s at most.

    `looks`: how many in turn must find no daemon.
    """
    until, missed = time.monotonic() + PATIENCE_S, 0
    while time.monotonic() < until and missed < looks:
        missed = 0 if _starts(candidates) else missed + 1
        if missed == looks:
            break
        if connect():
            return True
        time.sleep(_LOOK_S)
    return connect()


def _starts(candidates: Sequence[Paths]) -> bool:
    return any(
        name.isdecimal() and _is_young_daemon(f"/proc/{name}", candidates)
        for name in os.listdir("/proc")
    )


def _is_young_daemon(place: str, candidates: Sequence[Paths]) -> bool:
    """True if a process of this user, or of root, is a daemon of one of these places."""
    try:
        uid = os.stat(place).st_uid
        if uid not in (os.geteuid(), 0) or not is_daemon(_words(f"{place}/cmdline")):
            return False
        return _age_s(place) < _YOUNG_S and _paths_of(place, uid) in candidates
    except (OSError, ValueError, IndexError, StoreError):
        return False  # it has ended meanwhile, or the system hides it


def _words(path: str) -> list[str]:
    with open(path, "rb") as file:
        return os.fsdecode(file.read(_MOST_BYTES)).split("\0")


def _paths_of(place: str, uid: int) -> Paths:
    """The places that a daemon serves. Only its own user can read its environment."""
    try:
        pairs = (word.partition("=") for word in _words(f"{place}/environ"))
        return paths_for({name: value for name, _, value in pairs}, uid)
    except PermissionError:
        return paths_for({}, uid)


def is_daemon(words: Sequence[str]) -> bool:
    """True for the command line of a daemon, by any of its names."""
    names = [os.path.basename(word) for word in words[:4]]
    if "radrmd" in names[:2]:
        return True
    at = names.index("-m") + 1 if names[1:2] == ["-m"] else 1
    return names[at : at + 2] in [[each, "daemon"] for each in _PROGRAMS]


def _age_s(place: str) -> float:
    with open(f"{place}/stat", "rb") as file:
        ticks = int(file.read(_MOST_BYTES).rpartition(b")")[2].split()[19])
    with open("/proc/uptime", "rb") as file:
        return float(file.read(64).split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def not_reached(candidates: Sequence[Paths], own_home: bool = False) -> Unreachable:
    """Return the error about daemons that could not be reached, with what to do.

    `own_home`: RADRM_HOME names the only place.
    """
    me = os.geteuid()
    for paths in candidates:
        closed = _closed(paths)
        if closed is not None:
            step = "unset RADRM_HOME" if own_home else f"look at its rights: ls -ld {closed}"
            return Unreachable(f"{closed} belongs to {_owner(closed, me)}; {step}")
    return Unreachable("; ".join(not_running(candidates)))


def _closed(paths: Paths) -> str | None:
    """The first folder on the way to a daemon's socket that this user cannot enter."""
    try:
        if stat.S_ISSOCK(os.stat(paths.socket).st_mode) and not os.access(paths.socket, os.W_OK):
            return paths.socket
        return None
    except PermissionError:
        pass
    except OSError:
        return None
    place = "/"
    for part in paths.socket.strip("/").split("/"):
        if not os.access(place, os.X_OK):
            return place
        place = os.path.join(place, part)
    return None


def _owner(path: str, me: int) -> str:
    import pwd

    try:
        uid = os.stat(path).st_uid
        return "you, and its rights keep you out" if uid == me else pwd.getpwuid(uid).pw_name
    except (OSError, KeyError):
        return "somebody else"
