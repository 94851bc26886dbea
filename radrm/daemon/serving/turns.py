"""Requests wait: for their user's turn, and in line for the loop.

Theory of operation. A request's work is a generator that yields between pieces. Each round of
the loop gives a short time to requests. So neither a command on 100,000 jobs nor a hundred
clients delay events or other users. Between two pieces jobs and devices may change: work must
read the snapshot again after each `yield`.

A user's requests are of three kinds (`kind_of`), each with places of its own: a submission does not
wait for the user's reports, nor for commands on many jobs, whatever those take.

Long questions are worked on one at a time, so that many of them need no more memory than one. Each
that waits does pieces of the first one's work in its own turn: none waits for another user's turn,
and a client that leaves stops nothing.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from radrm.daemon.serving.server import Request

T = TypeVar("T")


class _Item(Generic[T]):
    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.over = False
        self.found: list[T] = []
        self.error: Exception | None = None

    def advance(self) -> None:
        """Do the next piece."""
        try:
            next(self.work)
        except StopIteration as end:
            self.over = True
            self.found.append(end.value)
        except Exception as error:
            self.over, self.error = True, error


class InLine:
    """The work that waits: of each user in turn, the oldest first. Used by the loop's thread."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[_Item[Any]]] = {}
        """By user. The first user's turn it is."""

    def do(self, work: Work[T], uid: int) -> Work[T]:
        """Do this work of a user in its turn; return its result, or raise its error."""
        mine = _Item(work)
        self._lines.setdefault(uid, deque()).append(mine)
        try:
            while not mine.over:
                user, line = next(iter(self._lines.items()))
                first = line[0]
                first.advance()
                if first.over:
                    self._remove(user, first)
                    if line:  # the other users come first
                        self._lines[user] = self._lines.pop(user)
                if not mine.over:
                    yield
        finally:
            if not mine.over:
                self._remove(uid, mine)
                work.close()
        if mine.error is not None:
            raise mine.error
        return mine.found[0]

    def _remove(self, uid: int, item: _Item[Any]) -> None:
        self._lines[uid].remove(item)
        if not self._lines[uid]:
            del self._lines[uid]


ROUND_S = 0.05
"""Seconds of work on requests in one round of the loop. A piece that has begun is finished."""
PIECE_S = 0.005
MOST_EVENTS = 50
"""Events of one piece of a command: one transaction."""
AT_ONCE = 4
"""Requests of one user and one kind that are worked on at a time; others wait. More than one, so
that quick requests pass long ones; few, so that the memory for a user stays small."""

OF_SUBMISSIONS, OF_THE_PAST, OTHERS = "submissions", "the past", "others"
_KINDS = {
    **dict.fromkeys((b"ping", b"check", b"intake", b"spool", b"limits"), OF_SUBMISSIONS),
    **dict.fromkeys((b"report", b"overview", b"history", b"energy"), OF_THE_PAST),
}
_OP = re.compile(rb'\s*\{\s*"op"\s*:\s*"([a-z-]{1,20})"')

_MANY = 100
"""Waiting requests of one user from which on those of disconnected clients are dropped."""

Work: TypeAlias = Generator[None, None, T]
"""Yields between pieces, returns the result."""


def kind_of(line: bytes) -> str:
    """Return the kind of a request by how its text begins: it is parsed only at its turn. One that
    is written otherwise takes another kind's place, whose bound holds, too."""
    found = _OP.match(line)
    return OTHERS if found is None else _KINDS.get(found[1], OTHERS)


class Pace:
    """Measures the time of a piece of work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + PIECE_S

    @property
    def spent(self) -> bool:
        """True if the piece has used its time and should `rest`."""
        return self._clock() >= self._until

    def rest(self) -> Work[None]:
        """Yield once, so that others have their turn; then begin a new piece."""
        yield
        self._until = self._clock() + PIECE_S

    def rest_if_spent(self) -> Iterable[None]:
        """`rest` if the piece has used its time, else go on at once: for `yield from`."""
        return self.rest() if self.spent else ()


class _User:
    def __init__(self, used_s: float) -> None:
        self.used_s = used_s
        """Seconds of work for this user. A new user starts with the least time of the others,
        so that old users do not wait until the new one has caught up."""
        self.waiting: dict[str, deque[Request]] = {}
        """By kind, those that wait. The first kind's turn it is."""
        self.begun: deque[tuple[Request, str, Work[None]]] = deque()
        self.goes_on = False
        """True if the next turn is for begun work: new requests and begun work alternate, so that
        a client that asks again and again does not delay its user's long requests for ever."""

    def next_to_begin(self) -> tuple[Request, str] | None:
        """Take the request that begins next, with its kind; None if all places are taken. The
        kinds take turns."""
        busy = [kind for _, kind, _ in self.begun]
        for kind, line in self.waiting.items():
            if busy.count(kind) < AT_ONCE:
                request = line.popleft()
                del self.waiting[kind]
                if line:
                    self.waiting[kind] = line
                return request, kind
        return None


class Turns:
    """The requests under way, by user. Used by the loop's thread.

    `answer` gives the work of a request; the work itself sends the answer.
    """

    def __init__(
        self,
        answer: Callable[[Request], Work[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answer = answer
        self._clock = clock
        self._users: dict[int, _User] = {}
        """The users who have requests."""

    def add(self, request: Request) -> None:
        uid = request.client.uid
        if uid not in self._users:
            self._users[uid] = _User(min((u.used_s for u in self._users.values()), default=0.0))
        line = self._users[uid].waiting.setdefault(kind_of(request.line), deque())
        if len(line) >= _MANY:
            left = [each for each in line if not each.given_up]
            line.clear()
            line.extend(left)
        line.append(request)

    @property
    def pending(self) -> bool:
        """True while there is work."""
        return bool(self._users)

    def run(self) -> None:
        """Work for one round. Each piece goes to the user who has had the least time."""
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
        user.goes_on = not user.goes_on and bool(user.begun)
        if not user.goes_on and (found := user.next_to_begin()) is not None:
            request, kind = found
            if request.begin():
                user.begun.appendleft((request, kind, self._answer(request)))
        if not user.begun:
            return
        request, kind, work = user.begun.popleft()
        if request.given_up:
            work.close()
            request.stopped()
            return
        try:
            next(work)
        except StopIteration:
            return
        user.begun.append((request, kind, work))


def finish(work: Work[T]) -> T:
    """Do all pieces at once, for small work."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: T = end.value
            return value
