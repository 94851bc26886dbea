"""A client that reads the store while no daemon runs, as the store's owner.

Only commands that show jobs use it. Imports of the daemon come with the first question that no
daemon answers.
"""

from __future__ import annotations

import os
import time

from radrm.client.connection import Client
from radrm.client.text import warn
from radrm.errors import StoreError, Unreachable
from radrm.host.storage.paths import not_running, servers_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from radrm.daemon.last_state import LastState
    from radrm.host.storage.paths import Paths

_GOOD_S = 1.0
"""Seconds for which a state is good, at least; it takes a tenth of the time at most."""
_MOST_LOCKS = 4 << 20


class ReadingClient(Client):
    """A `Client` whose questions the store answers as long as no daemon has answered one.

    It says so once. Raises `Unreachable` where this user cannot read the store.
    """

    _met = False
    """Whether a daemon has answered."""
    _state: LastState | None = None
    _until_s = 0.0

    def ask(self, op: str, **words: Any) -> Any:
        if not self._met:
            try:
                self.connect(patient=self._state is None)
            except Unreachable as error:
                return self._last_state(error).answer(op, words)
            self._met = True
        return super().ask(op, **words)

    def _last_state(self, error: Unreachable) -> LastState:
        now_s = time.monotonic()
        if self._state is not None and now_s < self._until_s:
            return self._state
        paths = _readable(self.candidates)
        if paths is None:
            raise error
        at_s = _written_s(paths)
        from radrm.daemon.last_state import LastState  # few find no daemon

        try:
            before, self._state = self._state, LastState(paths, os.getuid())
        except StoreError as damage:
            raise StoreError(f"radrm is not running, and {damage}") from None
        self._until_s = time.monotonic() + max(_GOOD_S, 10 * (time.monotonic() - now_s))
        if before is not None:
            before.close()
            return self._state
        _, step = not_running(self.candidates)
        waits = _waiting(paths.spool)
        warn(f"radrm is not running; this is its last state, of {_when(at_s)}{waits}; {step}")
        return self._state


def _readable(candidates: tuple[Paths, ...]) -> Paths | None:
    """The home whose store this user can read, if no daemon holds it."""
    server = servers_own()
    places = (server,) if server is not None and server in candidates else candidates
    for paths in places:
        try:
            found = os.stat(paths.database)
        except OSError:
            continue
        its_owner = os.geteuid() == found.st_uid or (os.geteuid() == 0 and paths == server)
        return paths if its_owner and not _is_held(paths.lock) else None
    return None


def _is_held(lock: str) -> bool:
    """Whether a process holds this lock, as the kernel lists it: to try it could stop a daemon
    that starts in that moment."""
    try:
        found = os.stat(lock)
        with open("/proc/locks", "rb") as file:
            listed = file.read(_MOST_LOCKS).decode("ascii", "replace")
    except OSError:
        return False
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(line.split()[5:6] == [device] for line in listed.splitlines())


def _written_s(paths: Paths) -> float:
    """When the last daemon wrote the store. (An empty log is of somebody who has read it.)"""
    from radrm.client.tail import written_s

    log = f"{paths.database}-wal"
    filled = os.path.exists(log) and os.path.getsize(log) > 0
    return max(written_s(paths.database), written_s(log) if filled else 0.0)


def _waiting(spool: str) -> str:
    """A few words on what was submitted since."""
    from radrm.host.storage.spool import SUFFIX

    try:
        count = sum(name.endswith(SUFFIX) for name in os.listdir(spool))
    except OSError:
        return ""
    return f"; {count} submission{'s wait' if count > 1 else ' waits'} for it" if count else ""


def _when(at_s: float) -> str:
    """As `12:04`, with the date if that is not today's."""
    then, now = time.localtime(at_s), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)
