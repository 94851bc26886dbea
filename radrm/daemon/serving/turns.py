"""The requests under way: each in small pieces, in turn, fair over users.

A request's work is a generator that yields between pieces. The loop has them worked on for a
short time in each of its rounds, so that neither an order about 100,000 jobs nor a hundred
clients keep events, or another user, waiting.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from radrm.daemon.serving.server import Request

ROUND_S = 0.05
"""Work on requests in one round of the loop; the piece that is begun is finished."""
PIECE_S = 0.005
MOST_EVENTS = 100
"""Events of one piece of an order: one transaction."""
AT_ONCE = 4
"""Requests of one user that are under way; more of them wait. So quick ones pass long ones,
and what is held for a user stays small."""

_MANY = 100
"""More of one user wait only where their clients have gone: then those are left out."""

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]
"""Yields between pieces, returns what came of it."""


class Pace:
    """Tells a piece of work when it has had its share of time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + PIECE_S

    @property
    def spent(self) -> bool:
        return self._clock() >= self._until

    def rest(self) -> Work[None]:
        """Let others have their turn."""
        yield
        self._until = self._clock() + PIECE_S


class _User:
    def __init__(self, used_s: float) -> None:
        self.used_s = used_s
        """Work for him so far; who comes anew begins with what he who has had least has had."""
        self.waiting: deque[Request] = deque()
        self.begun: deque[tuple[Request, Work[None]]] = deque()


class Turns:
    """`answer` gives the work of a request, which answers it. Used by the loop's thread."""

    def __init__(
        self,
        answer: Callable[[Request], Work[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answer = answer
        self._clock = clock
        self._users: dict[int, _User] = {}
        """Those for whom there is work."""

    def add(self, request: Request) -> None:
        uid = request.client.uid
        if uid not in self._users:
            self._users[uid] = _User(min((u.used_s for u in self._users.values()), default=0.0))
        user = self._users[uid]
        if len(user.waiting) >= _MANY:
            user.waiting = deque(each for each in user.waiting if not each.given_up)
        user.waiting.append(request)

    @property
    def pending(self) -> bool:
        """True while there is work to be done."""
        return bool(self._users)

    def run(self) -> None:
        """Work for one round: always a piece for the user who has had the least time."""
        now = self._clock()
        until = now + ROUND_S
        while self._users and now < until:
            uid, user = min(self._users.items(), key=lambda item: item[1].used_s)
            began = now
            self._work_for(user)
            now = self._clock()
            user.used_s += now - began
            if not (user.waiting or user.begun):
                del self._users[uid]

    def _work_for(self, user: _User) -> None:
        if user.waiting and len(user.begun) < AT_ONCE:
            request = user.waiting.popleft()
            if request.begin():
                user.begun.appendleft((request, self._answer(request)))
        if not user.begun:
            return
        request, work = user.begun.popleft()
        if request.given_up:
            work.close()
            request.stopped()
            return
        try:
            next(work)
        except StopIteration:
            return
        user.begun.append((request, work))


def finish(work: Work[T]) -> T:
    """All the pieces at once, for work that is known to be small."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value
