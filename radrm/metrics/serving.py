"""/metrics alone, over HTTP.

Theory of operation. One thread of asyncio serves all connections: one request each, then it is
closed. A connection has `LIMIT_S` in all, so neither a slow sender nor a slow reader stays. At
most `MOST` are open: then the one that has been idle for the longest, before its request or after
its answer, gives way, else the new one. The daemon is asked by one thread, at most once a second,
and all that ask meanwhile get the same text. So many scrapes cost the daemon as much as one.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from radrm.metrics.exposition import CONTENT_TYPE

LIMIT_S = 10.0
"""The time of a connection, from its beginning to its end."""
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
    """Serves `make()` at /metrics. `open` counts the connections."""

    def __init__(self, make: Callable[[], bytes], limit_s: float = LIMIT_S) -> None:
        self._fresh = Fresh(make)
        self._limit_s = limit_s
        self._idle: dict[asyncio.StreamWriter, None] = {}
        """The connections that wait for their client, the first one for the longest."""
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    @property
    def open(self) -> int:
        """The number of open connections."""
        return len(self._open)

    async def serve(self, host: str, port: int, ready: Callable[[str, int], None]) -> None:
        """Serve until TERM or INT. `ready` hears the address. Raises OSError."""
        server = await asyncio.start_server(self._accept, host, port, limit=_MOST_BYTES)
        over = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, over.set)
        async with server:
            address = server.sockets[0].getsockname()
            ready(address[0], address[1])
            await over.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST and not self._make_room():
            writer.transport.abort()
            return
        self._idle[writer] = None
        self._open[writer] = asyncio.create_task(self._connection(reader, writer))

    def _make_room(self) -> bool:
        """End the connection that is idle for the longest. False if none is."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        self._forget(oldest)
        oldest.transport.abort()  # its task sees that and ends
        return True

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._idle.pop(writer, None)
        self._open.pop(writer, None)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # The client may leave, send too much, or be too slow: that is its own affair.
            with suppress(OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError):
                await asyncio.wait_for(self._exchange(reader, writer), self._limit_s)
        finally:
            self._forget(writer)
            writer.transport.abort()  # all is sent, or shall not be

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and write its answer."""
        request = await reader.readuntil(b"\r\n\r\n")
        self._idle.pop(writer, None)
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until all is sent
        writer.write(await self._answer(request))
        await writer.drain()
        self._idle[writer] = None
        writer.write_eof()
        await reader.read(1)  # until the client has read all: an abort could overtake it

    async def _answer(self, request: bytes) -> bytes:
        words = request.partition(b"\r\n")[0].split(b" ")
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
