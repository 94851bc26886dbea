"""Who may have a connection: so many in all, so many of one user, and some kept for root."""

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
"""For root and the daemon's own user, beyond all others."""
_GRACE_S = 1.0
"""So long a connection may be silent before it has to give way."""


class Guest(Protocol):
    """A connection that was let in."""

    client: Peer
    since: float
    silent: bool

    def end(self) -> None: ...


G = TypeVar("G", bound=Guest)


class Slots(Generic[G]):
    """The connections there are. Who comes when there is no room takes the place of one that
    is silent: of his own, else of the user who has most, if that is more than he has himself."""

    def __init__(
        self,
        most: int = MAX_CONNECTIONS,
        of_one_user: int = MAX_OF_ONE_USER,
        kept: int = KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._most_of_one = of_one_user
        self._kept = kept
        self._clock = clock
        self._lock = threading.Lock()
        self._guests: dict[int, dict[G, None]] = {}
        """By user; of each the oldest first."""
        self._count = 0

    def admit(self, guest: G) -> str | None:
        """Let a connection in, or say why not: one line for its client."""
        uid = guest.client.uid
        with self._lock:
            mine = len(self._guests.get(uid, ()))
            if mine >= self._most_of_one and not self._end_silent(uid):
                return f"you have {mine} connections to the daemon, and more are not allowed"
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

    def leave(self, guest: G) -> None:
        """A connection has ended."""
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
        """Whether one of the places that are kept is free for this user."""
        masters = {0, os.getuid()}
        return uid in masters and self._count < self._most + self._kept

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
