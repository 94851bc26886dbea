"""Listen, print the link, serve until TERM or INT.

Theory of operation. Other users of the server can open connections to the port. A connection has
one request; `Connections` bounds how many there are, and how long each waits for its client.
A stream (`live.py`) waits only while it is unread. SIGUSR1 prints another link.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from radrm.errors import Refused
from radrm.host.connections import Connections
from radrm.web.app import Page

MOST_CONNECTIONS = 256
_LIMIT_S = 15.0
"""How long a connection waits for its client: for a request, and until an answer is read."""
_HEADERS = 16 * 1024
_LEAVE_S = 2.0


def _bounded(places: Connections) -> type[asyncio.Protocol]:
    """Uvicorn's protocol, with the bounds of these connections."""

    class Bounded(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            places.opened(transport)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
                places.arrived(self.transport)

        def pause_writing(self) -> None:
            super().pause_writing()
            places.blocked(self.transport)

        def resume_writing(self) -> None:
            super().resume_writing()
            places.unblocked(self.transport)

        def connection_lost(self, exc: Exception | None) -> None:
            places.lost(self.transport)
            super().connection_lost(exc)

    return Bounded


def listen_tcp(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `Refused`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise Refused(
            f"cannot listen on {host}, port {port}: {error.strerror}; take another --listen"
        ) from None
    return listener


def listen_unix(path: str, group: int | None) -> socket.socket:
    """Return a listening socket at a path, for this user only, or also for a group.

    A socket that nobody serves is replaced. Raises `Refused`, also for a folder in which others
    could put something else in its place.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder = os.path.dirname(os.path.abspath(path))
        if os.stat(folder).st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            raise Refused(f"everybody can write in {folder}; take another folder for --socket")
        _clear(path)
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        if group is not None:
            os.chown(path, -1, group)
            os.chmod(path, 0o660)
        listener.listen(MOST_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise Refused(f"cannot listen on the socket {path}: {error.strerror or error}") from None
    return listener


def _clear(path: str) -> None:
    """Remove a socket that nobody serves. Raises `Refused` for anything else that is there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise Refused(f"{path} is there and is no socket; take another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)  # its backlog may be full
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise Refused(f"{path} is served already; end that radrm serve first")


def serve(page: Page, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until TERM or INT. `ready` is called when it listens, and for each SIGUSR1."""
    asyncio.run(_serve(page, listener, ready))


class _Server(uvicorn.Server):
    """Uvicorn's server, whose signals are ours: it would kill itself by them at its end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(page: Page, listener: socket.socket, ready: Callable[[], None]) -> None:
    config = uvicorn.Config(
        page.app,
        http=_bounded(Connections(MOST_CONNECTIONS, _LIMIT_S)),
        headers=[("connection", "close")],
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(_LEAVE_S),
        h11_max_incomplete_event_size=_HEADERS,
    )
    server = _Server(config)

    def leave() -> None:
        page.live.closing = True
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    loop.add_signal_handler(signal.SIGUSR1, ready)
    sampling = asyncio.create_task(page.sample())
    ready()
    try:
        await server.serve(sockets=[listener])
    finally:
        sampling.cancel()
        page.close()
