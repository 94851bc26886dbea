"""Ask the daemon for a tool: one connection for each call, and few calls at once.

The tools of one agent run in threads, and a `Client` carries one request at a time. A connection
that lasts only for a call lets the daemon be restarted between two calls.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from radrm.client.connection import Client

_AT_ONCE = 2
_turn = threading.BoundedSemaphore(_AT_ONCE)


@contextmanager
def daemon() -> Iterator[Client]:
    """A client that is connected. Raises `Unreachable` where no daemon answers."""
    with _turn, Client() as client:
        client.connect()
        yield client
