"""Long questions one at a time, so that many of them need no more memory than one.

Each request that waits does pieces of the first one's work in its own turn: so none waits for
another user's turn, and a client that leaves stops nothing. Users take turns: many questions of one
user delay another user's by one of them.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeVar

from radrm.daemon.serving.turns import Work

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
