"""Whose trace is next: each user has a line, and the users take turns. Nothing here has a lock."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Lines(Generic[T]):
    """What waits, by user. At most `at_once` are taken at the same time, and one of each user."""

    def __init__(self, at_once: int) -> None:
        self._room = at_once
        self._waiting: dict[str, deque[T]] = {}
        """The users that have something, the next one first."""
        self._busy: set[str] = set()

    def add(self, user: str, what: T) -> None:
        self._waiting.setdefault(user, deque()).append(what)

    def take(self) -> list[tuple[str, T]]:
        """Take what may begin now, until `free` is called for each user."""
        found: list[tuple[str, T]] = []
        for user in [each for each in self._waiting if each not in self._busy][: self._room]:
            line = self._waiting.pop(user)
            found.append((user, line.popleft()))
            if line:
                self._waiting[user] = line  # behind the other users
            self._busy.add(user)
            self._room -= 1
        return found

    def free(self, user: str) -> None:
        """Note that what was taken for a user has ended."""
        self._busy.discard(user)
        self._room += 1
