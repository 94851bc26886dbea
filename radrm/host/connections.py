"""The connections of a server on an event loop, whose clients may be slow or hostile.

Theory of operation. A connection *waits for its client* until a whole request is there, and again
while bytes of an answer are unread. It may do so for `limit_s` each time, then it is closed: bytes
that trickle do not extend the time. At most `most` connections are open. For a new one beyond them,
the connection that has waited for the longest gives way; if none waits, the new one does. So a
client can neither keep a place by silence, nor by half a request, nor by reading nothing.
"""

from __future__ import annotations

import asyncio


class Connections:
    """The open connections of one server. Its protocol reports each change of a connection:

    `opened`, `arrived` (a whole request), `blocked` (`pause_writing`), `unblocked`
    (`resume_writing`), `lost`. To be called in the thread of the loop.
    """

    def __init__(self, most: int, limit_s: float) -> None:
        self._most = most
        self._limit_s = limit_s
        self._open: set[asyncio.Transport] = set()
        self._waiting: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        """Those that wait for their clients, the first one for the longest; and their ends."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def waiting(self) -> int:
        """How many wait for their clients."""
        return len(self._waiting)

    def opened(self, transport: asyncio.Transport) -> None:
        """Give a new connection a place: it waits for a request."""
        if len(self._open) >= self._most:
            oldest = next(iter(self._waiting), transport)
            self.lost(oldest)
            oldest.abort()
            if oldest is transport:
                return
        # So `pause_writing` comes with the first byte that is unread, `resume_writing` with none.
        transport.set_write_buffer_limits(high=0)
        self._open.add(transport)
        self.blocked(transport)

    def arrived(self, transport: asyncio.Transport) -> None:
        """Its request is whole: from now on the client waits for the server."""
        if not transport.get_write_buffer_size():
            self._work(transport)

    def blocked(self, transport: asyncio.Transport) -> None:
        """The server waits for the client: for a request, or until it has read."""
        if transport in self._open and transport not in self._waiting:
            loop = asyncio.get_running_loop()
            self._waiting[transport] = loop.call_later(self._limit_s, transport.abort)

    def unblocked(self, transport: asyncio.Transport) -> None:
        """The client has read all that was written."""
        self._work(transport)

    def lost(self, transport: asyncio.Transport) -> None:
        """Forget a connection that has ended."""
        self._open.discard(transport)
        self._work(transport)

    def _work(self, transport: asyncio.Transport) -> None:
        end = self._waiting.pop(transport, None)
        if end is not None:
            end.cancel()
