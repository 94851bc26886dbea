"""Answers as bytes, and a bound on the bytes that wait for clients to read them.

Theory of operation. Each connection's thread sends its own answer, and counts it under one lock.
A thread that exceeds a bound ends the slowest connections; their threads then fail to send and
uncount themselves. So a client that does not read costs a bounded amount of memory.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from radrm.daemon.serving.slots import Connection

MAX_HELD = 64 * 2**20
MAX_HELD_OF_ONE_USER = 16 * 2**20
"""Bytes of answers that are not read yet."""
_ENTRY = 256
"""Bytes that an entry of a long list takes, roughly."""
_PIECE = 500
"""Entries of a long list that are encoded, and sent, at a time."""


def refusal(error: str, code: int) -> dict[str, Any]:
    """The answer to a request that failed; `code` is the exit code of the client's command."""
    return {"ok": False, "error": error, "code": code}


def encoded(answer: dict[str, Any]) -> Iterator[bytes]:
    """An answer's line. A long list comes in pieces and is never in memory as a whole."""
    result = answer.get("result")
    if not isinstance(result, list) or len(result) <= _PIECE:
        yield _encoded(answer) + b"\n"
        return
    yield b'{"ok":true,"result":['
    for i in range(0, len(result), _PIECE):
        piece = _encoded(result[i : i + _PIECE])[1:-1]
        yield piece if i == 0 else b"," + piece
    yield b"]}\n"


def weight(answer: dict[str, Any]) -> int:
    """Roughly the bytes that an answer takes until it is sent; a long list is not encoded yet."""
    result = answer.get("result")
    return _ENTRY * len(result) if isinstance(result, list) else 0


def _encoded(value: Any) -> bytes:
    """A value as JSON. Users' text may hold lone surrogates, which only `json` can encode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode("ascii")


class Held:
    """Counts the bytes that wait for their readers. When one user or all users hold too many,
    it ends the connections that have not read for the longest time. It begins with the user who
    holds most."""

    def __init__(self, most: int = MAX_HELD, of_one_user: int = MAX_HELD_OF_ONE_USER) -> None:
        self._most = most
        self._most_of_one = of_one_user
        self._lock = threading.Lock()
        self._bytes: dict[Connection, int] = {}
        self._of_user: Counter[int] = Counter()

    @contextlib.contextmanager
    def while_sent(self, connection: Connection, size: int) -> Iterator[None]:
        """Count these bytes until they are sent or the connection ends."""
        with self._lock:
            self._bytes[connection] = size
            self._of_user[connection.client.uid] += size
            self._make_room(connection)
        try:
            yield
        finally:
            with self._lock:
                self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        size = self._bytes.pop(connection, 0)
        uid = connection.client.uid
        self._of_user[uid] -= size
        if self._of_user[uid] <= 0:
            del self._of_user[uid]

    def _make_room(self, newest: Connection) -> None:
        uid = newest.client.uid
        while self._of_user[uid] > self._most_of_one and self._end_one(uid, newest):
            pass
        while sum(self._of_user.values()) > self._most:
            (most, _) = self._of_user.most_common(1)[0]
            if not self._end_one(most, newest):
                return

    def _end_one(self, uid: int, newest: Connection) -> bool:
        """End the connection of a user that has not read for the longest time."""
        slow = [c for c in self._bytes if c.client.uid == uid and c is not newest]
        if not slow:
            return False
        oldest = min(slow, key=lambda c: c.since)
        self._drop(oldest)
        oldest.end()
        return True
