"""Long questions one at a time, so that many of them need no more memory than one.

Each request that waits does pieces of the first one's work in its own turn: so none waits for
another user's turn, and a client that leaves stops nothing.
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
    """The work that waits, the oldest first. Used by the loop's thread."""

    def __init__(self) -> None:
        self._line: deque[_Item[Any]] = deque()

    def do(self, work: Work[T]) -> Work[T]:
        """Do this work when all that came before is done; return its result, or raise its
        error."""
        mine = _Item(work)
        self._line.append(mine)
        try:
            while not mine.over:
                first = self._line[0]
                first.advance()
                if first.over:
                    self._line.popleft()
                if not mine.over:
                    yield
        finally:
            if not mine.over:
                self._line.remove(mine)
                work.close()
        if mine.error is not None:
            raise mine.error
        return mine.found[0]
