"""Messages of workers: lines of JSON over a socket, and their fields, which nobody trusts."""

from __future__ import annotations

import json
import socket
from typing import Any

from radrm.elastic import LONGEST_LINE
from radrm.elastic.radrun.shards.book import LARGEST, BookError, Ranges

# ------------------------------------------------------------------
# Reads the fields of a worker's message. A worker is the user's program: nothing is trusted.


LONGEST_NAME = 200
MOST_NAMES = 8000
"""Modules that a worker names, at most."""

Message = dict[str, Any]


def whole(message: Message, key: str) -> int:
    """Return a whole number from 0."""
    value = message.get(key)
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise BookError(f"the message has no number '{key}'")
    return value


def name(message: Message, key: str) -> str:
    """Return a short text."""
    value = message.get(key)
    if type(value) is not str or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise BookError(
            f"'{key}' must be a printable text of at most {LONGEST_NAME} characters,"
            f" not {str(value)[:40]!r}"
        )
    return value


def number(message: Message, key: str) -> float | None:
    """Return a finite number, or None."""
    value = message.get(key)
    if not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        return None
    return float(value)


def reads(message: Message) -> dict[str, Ranges]:
    """Return what a step has consumed, by dataset."""
    found = message.get("read", {})
    if not isinstance(found, dict):
        raise BookError("the message's 'read' is no object")
    for dataset, ranges in found.items():
        name({"read": dataset}, "read")
        if not isinstance(ranges, list) or not all(_is_range(each) for each in ranges):
            raise BookError("the message's 'read' has no ranges")
    return found


def modules(message: Message) -> list[str]:
    """Return the modules that the worker has loaded."""
    found = message.get("modules")
    if not isinstance(found, list):
        return []
    return [each for each in found[:MOST_NAMES] if type(each) is str and each.isprintable()]


def _is_range(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    first, last = value
    return type(first) is type(last) is int and 0 <= first < last <= LARGEST


# ------------------------------------------------------------------
# JSON lines over a stream socket that never blocks, with bounded queues.


MOST_UNSENT = 1024 * 1024
"""Bytes that may wait for a peer that does not read."""
_AT_ONCE = 64
"""Lines of one connection that are answered before another's turn."""


class Gone(Exception):
    """The connection has to be closed. The text says why; empty if the peer closed it."""


class Lines:
    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._read = bytearray()
        self._unsent = bytearray()
        self._ended = False

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def read(self) -> list[dict[str, Any]]:
        """Return the messages that have arrived. Raises Gone."""
        try:
            data = self.socket.recv(LONGEST_LINE)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Gone(error.strerror or "") from None
        if not data:
            raise Gone("")
        self._read += data
        *lines, rest = bytes(self._read).split(b"\n")
        if len(rest) > LONGEST_LINE or any(len(line) > LONGEST_LINE for line in lines):
            raise Gone(f"a message has more than {LONGEST_LINE} bytes")
        self._read = bytearray(rest)
        return [self._message(line) for line in lines if line]

    @staticmethod
    def _message(line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            raise Gone("a message is not JSON") from None
        if not isinstance(found, dict):
            raise Gone("a message is not a JSON object")
        return found

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, or queue it. Raises Gone."""
        self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()
        if len(self._unsent) > MOST_UNSENT:
            raise Gone("it does not read its answers")

    def flush(self) -> None:
        """Send what the socket takes now. Raises Gone."""
        while self._unsent:
            try:
                sent = self.socket.send(self._unsent)
            except BlockingIOError:
                return
            except OSError as error:
                raise Gone(error.strerror or "") from None
            del self._unsent[:sent]
