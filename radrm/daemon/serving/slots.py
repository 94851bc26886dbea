"""Connections, and their limits: how many, and how many requests of each user.

Theory of operation: requests
-----------------------------
A user's bucket holds the requests of `BURST_S` seconds, at least ten. A request takes one. Without
one in the bucket it waits for its own, in the thread of its connection: scripts are slowed down,
and need not try again. What would wait for more than `LONGEST_WAIT_S` is refused and takes nothing.

Theory of operation: connections
--------------------------------
One lock covers the table. `admit` runs in the accepting thread, `leave` in
each connection's thread. A connection may be ended from here while its thread works; the thread
then calls `leave` for an entry that is gone, which does nothing.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from math import ceil

from msgspec import Struct, field

from radrm.host.sockets import Peer

BURST_S = 10.0
LONGEST_WAIT_S = 10.0
_LEAST_BURST = 10.0
_MANY = 1000
"""Users of whom buckets are kept; full ones are dropped then."""


class Rates:
    """The buckets. `per_s`: a user's requests a second, 0 for any number."""

    def __init__(
        self, per_s: Callable[[int], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[int, tuple[float, float]] = {}
        """By user: the requests left (below zero while some wait), and when that was."""

    def take(self, uid: int) -> float:
        """Return the seconds that a user's next request has to wait.

        With more than `LONGEST_WAIT_S` it is to be refused, and does not count.
        """
        per_s = self._per_s(uid)
        if per_s <= 0:
            return 0.0
        with self._lock:
            left = self._left(uid, per_s) - 1.0
            wait_s = max(0.0, -left / per_s)
            if wait_s <= LONGEST_WAIT_S:
                self._buckets[uid] = left, self._clock()
        return wait_s

    def refusal(self, uid: int, wait_s: float) -> str:
        """Return the message for a user whose request is refused."""
        return (
            f"you send more than {self._per_s(uid):g} requests a second; "
            f"nothing was done, try again in {ceil(wait_s)} s"
        )

    def _left(self, uid: int, per_s: float) -> float:
        most = max(_LEAST_BURST, BURST_S * per_s)
        if len(self._buckets) > _MANY and uid not in self._buckets:
            now = self._clock()
            for other, (left, at) in list(self._buckets.items()):
                if left + (now - at) * self._per_s(other) >= most:
                    del self._buckets[other]
        left, at = self._buckets.get(uid, (most, self._clock()))
        return min(most, left + (self._clock() - at) * per_s)


MAX_CONNECTIONS = 256
MAX_OF_ONE_USER = 64
KEPT = 16
"""Further connections for root and the daemon's own user."""
_GRACE_S = 1.0
"""Seconds of silence after which a connection may lose its place to a new one."""


class Connection(Struct, eq=False):
    """The open connection of one client."""

    socket: socket.socket
    client: Peer
    since: float = field(default_factory=time.monotonic)
    """Since when the client neither asks nor reads."""
    silent: bool = True

    def end(self) -> None:
        """End all reads and writes of this connection. Safe in any thread."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    @property
    def gone(self) -> bool:
        """True when the client has closed its end."""
        look = select.poll()
        look.register(self.socket, 0)
        return bool(look.poll(0))


class Slots:
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
        self._open: dict[int, dict[Connection, None]] = {}
        """By user; of each the oldest first."""
        self._count = 0

    def admit(self, new: Connection) -> str | None:
        """Give a connection a place. Returns None, or one line that says why it gets none."""
        uid = new.client.uid
        with self._lock:
            mine, most = len(self._open.get(uid, ())), self._most_of_one(uid)
            if 0 < most <= mine and not self._end_silent(uid):
                return f"you have {mine} connections to the daemon, the limit is {most}; close some"
            if self._count >= self._most and not self._has_kept(uid):
                greedy = max(self._open, key=lambda user: len(self._open[user]))
                mine = len(self._open.get(uid, ()))
                if len(self._open[greedy]) <= mine + 1 or not (
                    self._end_silent(greedy) or self._end_oldest(greedy)
                ):
                    return f"all {self._count} connections to the daemon are in use; try again"
            self._open.setdefault(uid, {})[new] = None
            self._count += 1
        return None

    def of(self, uid: int) -> int:
        """Return the number of a user's connections."""
        with self._lock:
            return len(self._open.get(uid, ()))

    def leave(self, gone: Connection) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._remove(gone)

    def _remove(self, gone: Connection) -> None:
        uid = gone.client.uid
        mine = self._open.get(uid, {})
        if gone not in mine:
            return
        del mine[gone]
        self._count -= 1
        if not mine:
            del self._open[uid]

    def _has_kept(self, uid: int) -> bool:
        """True if a place that is kept for root or the daemon's user is free for this user."""
        administrators = {0, os.getuid()}
        return uid in administrators and self._count < self._most + self._kept

    def _end_silent(self, uid: int) -> bool:
        """End the connection of this user that has been silent for the longest time."""
        before = self._clock() - _GRACE_S
        silent = [c for c in self._open[uid] if c.silent and c.since <= before]
        return self._end(min(silent, key=lambda c: c.since, default=None))

    def _end_oldest(self, uid: int) -> bool:
        return self._end(next(iter(self._open[uid]), None))

    def _end(self, connection: Connection | None) -> bool:
        if connection is None:
            return False
        self._remove(connection)
        connection.end()
        return True
