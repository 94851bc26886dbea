"""/metrics alone, over HTTP.

Theory of operation. One thread of asyncio serves all connections: one request each, then it is
closed. `Connections` bounds how many there are, and how long each waits for its client. The daemon
is asked by one thread, at most once a second, and all that ask meanwhile get the same text. So many
scrapes cost the daemon as much as one.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

from radrm.host.connections import Connections
from radrm.metrics.exposition import CONTENT_TYPE

LIMIT_S = 10.0
"""How long a connection waits for its client: for a request, and until the answer is read."""
MOST = 64
"""Connections at a time."""
GOOD_S = 1.0
"""The time for which an exposition is given to others who ask."""
_MOST_BYTES = 8192
"""Bytes of a request with its headers."""


class Fresh:
    """An exposition that is at most `GOOD_S` old. `make` is called in a thread, once at a time."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._text = b""
        self._until_s = float("-inf")
        self._coming: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return it. One that waits may leave; the others still get it."""
        if time.monotonic() < self._until_s:
            return self._text
        if self._coming is None:
            self._coming = asyncio.create_task(self._renew())
        return await asyncio.shield(self._coming)

    async def _renew(self) -> bytes:
        try:
            self._text = await asyncio.to_thread(self._make)
            self._until_s = time.monotonic() + GOOD_S
            return self._text
        finally:
            self._coming = None


class MetricsServer:
    """Serves `make()` at /metrics. `connections` are those that are open."""

    def __init__(self, make: Callable[[], bytes], limit_s: float = LIMIT_S) -> None:
        self._fresh = Fresh(make)
        self.connections = Connections(MOST, limit_s)

    async def serve(self, host: str, port: int, ready: Callable[[str, int], None]) -> None:
        """Serve until TERM or INT. `ready` hears the address. Raises OSError."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _Connection(self.connections, self._fresh), host, port
        )
        over = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, over.set)
        async with server:
            address = server.sockets[0].getsockname()
            ready(address[0], address[1])
            await over.wait()


class _Connection(asyncio.Protocol):
    """Reads one request and writes its answer."""

    _transport: asyncio.Transport

    def __init__(self, connections: Connections, fresh: Fresh) -> None:
        self._connections = connections
        self._fresh = fresh
        self._request = b""
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._connections.opened(transport)

    def data_received(self, data: bytes) -> None:
        if self._answering is not None:
            return  # it has asked, and the rest is not for us
        self._request += data
        if b"\r\n\r\n" in self._request[:_MOST_BYTES]:
            self._connections.arrived(self._transport)
            self._answering = asyncio.create_task(self._send_answer())
        elif len(self._request) > _MOST_BYTES:
            self._transport.abort()

    def eof_received(self) -> bool:
        """Return whether the answer may still be sent: the client has only ended its own part."""
        return self._answering is not None

    def pause_writing(self) -> None:
        self._connections.blocked(self._transport)

    def resume_writing(self) -> None:
        self._connections.unblocked(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.lost(self._transport)

    async def _send_answer(self) -> None:
        try:
            self._transport.write(await self._answer())
        finally:
            self._transport.close()  # when all is sent

    async def _answer(self) -> bytes:
        words = self._request.partition(b"\r\n")[0].split(b" ")
        method, path = words[0], words[1].partition(b"?")[0] if len(words) == 3 else b""
        if method not in (b"GET", b"HEAD"):
            return _answer("405 Method Not Allowed", b"only GET\n", head=False)
        if path != b"/metrics":
            return _answer("404 Not Found", b"only /metrics is served\n", method == b"HEAD")
        return _answer("200 OK", await self._fresh.text(), method == b"HEAD", CONTENT_TYPE)


def _answer(status: str, body: bytes, head: bool, kind: str = "text/plain; charset=utf-8") -> bytes:
    headers = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    )
    return headers.encode("ascii") + (b"" if head else body)
