"""JSON lines over a stream socket that never blocks, with bounded queues."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from radrm.elastic import LONGEST_LINE

MOST_UNSENT = 1024 * 1024
"""Bytes that may wait for a peer that does not read."""
_AT_ONCE = 64
"""Lines of one connection that are answered before another's turn."""
_UCRED = struct.Struct("iII")


class Gone(Exception):
    """The connection has to be closed. The text says why; empty if the peer closed it."""


class Lines:
    """One connection."""

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


def peer_uid(sock: socket.socket) -> int:
    """Return the user at the other end, as the kernel says."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return int(_UCRED.unpack(found)[1])
