"""Limit the connections: in all, of one user, and with some kept for root.

Theory of operation. One lock covers the table. `admit` runs in the accepting thread, `leave` in
each connection's thread. A connection may be ended from here while its thread works; the thread
then calls `leave` for an entry that is gone, which does nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from radrm.host.sockets import Peer

MAX_CONNECTIONS = 256
MAX_OF_ONE_USER = 64
KEPT = 16
"""Further connections for root and the daemon's own user."""
_GRACE_S = 1.0
"""Seconds of silence after which a connection may lose its place to a new one."""


class Guest(Protocol):
    """A connection that has a place; `silent` since `since`."""

    client: Peer
    since: float
    silent: bool

    def end(self) -> None: ...


G = TypeVar("G", bound=Guest)


class Slots(Generic[G]):
    """The open connections. When there is no room, a new connection takes the place of a silent
    one: of the same user, else of the user with most, if that user has more connections."""

    def __init__(
        self,
        most: int = MAX_CONNECTIONS,
        of_one_user: Callable[[int], int] = lambda uid: MAX_OF_ONE_USER,
        kept: int = KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`of_one_user` returns the limit of a user; 0: none."""
        self._most = most
        self._most_of_one = of_one_user
        self._kept = kept
        self._clock = clock
        self._lock = threading.Lock()
        self._guests: dict[int, dict[G, None]] = {}
        """By user; of each the oldest first."""
        self._count = 0

    def admit(self, guest: G) -> str | None:
        """Give a connection a place. Returns None, or one line that says why it gets none."""
        uid = guest.client.uid
        with self._lock:
            mine, most = len(self._guests.get(uid, ())), self._most_of_one(uid)
            if 0 < most <= mine and not self._end_silent(uid):
                return f"you have {mine} connections to the daemon, the limit is {most}; close some"
            if self._count >= self._most and not self._has_kept(uid):
                greedy = max(self._guests, key=lambda user: len(self._guests[user]))
                mine = len(self._guests.get(uid, ()))
                if len(self._guests[greedy]) <= mine + 1 or not (
                    self._end_silent(greedy) or self._end_oldest(greedy)
                ):
                    return f"all {self._count} connections to the daemon are in use; try again"
            self._guests.setdefault(uid, {})[guest] = None
            self._count += 1
        return None

    def of(self, uid: int) -> int:
        """Return the number of a user's connections."""
        with self._lock:
            return len(self._guests.get(uid, ()))

    def leave(self, guest: G) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._remove(guest)

    def _remove(self, guest: G) -> None:
        uid = guest.client.uid
        guests = self._guests.get(uid, {})
        if guest not in guests:
            return
        del guests[guest]
        self._count -= 1
        if not guests:
            del self._guests[uid]

    def _has_kept(self, uid: int) -> bool:
        """True if a place that is kept for root or the daemon's user is free for this user."""
        administrators = {0, os.getuid()}
        return uid in administrators and self._count < self._most + self._kept

    def _end_silent(self, uid: int) -> bool:
        """End the connection of this user that has been silent for the longest time."""
        before = self._clock() - _GRACE_S
        silent = [g for g in self._guests[uid] if g.silent and g.since <= before]
        return self._end(min(silent, key=lambda g: g.since, default=None))

    def _end_oldest(self, uid: int) -> bool:
        return self._end(next(iter(self._guests[uid]), None))

    def _end(self, guest: G | None) -> bool:
        if guest is None:
            return False
        self._remove(guest)
        guest.end()
        return True
