"""The workers' end of `radrun`: a Unix socket by which `elastic.py` takes data, steps and saves.

One thread, and the caller's selector: each file is registered with a function as its `data`, to be
called with the ready mask. Nothing here blocks, but the writing of a state at a save. Only
processes of radrun's own user are let in (SO_PEERCRED); connections and queues are bounded. What
the messages mean is in `shards/service.py`. The hub does not need the daemon.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Sequence
from typing import Any

from radrm.elastic.radrun.shards.book import BookError, Worker
from radrm.elastic.radrun.shards.dealing import Listener, Member
from radrm.elastic.radrun.shards.messages import Gone, Lines
from radrm.elastic.radrun.shards.service import Service
from radrm.elastic.radrun.shards.store import Store
from radrm.host.sockets import listen, peer

__all__ = ["Hub", "Listener"]

MOST_CONNECTIONS = 1024
_BACKLOG = 256


class Hub(Service):
    """Serves one attempt's workers. `path`: the socket's; `state_folder`: of the shards' states.

    The state folder has to outlive the attempt: `$RADRM_CHECKPOINT_DIR/shards`. Raises OSError.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        path: str | os.PathLike[str],
        state_folder: str | os.PathLike[str],
        listener: Listener,
    ) -> None:
        self._connections: set[_Connection] = set()
        super().__init__(Store(state_folder), listener)
        self._selector = selector
        self._path = path
        self._server = listen(path, backlog=_BACKLOG)
        self._server.setblocking(False)
        selector.register(self._server, selectors.EVENT_READ, self._accept)

    def begin(self, generation: int, tasks: Sequence[Worker]) -> None:
        """From now on only these workers (role, number) of this generation count.

        `generation` is their RADRM_GENERATION. Connections of others are closed. Until a worker
        loads a checkpoint, the data of the generation begins at the beginning.
        """
        self._close_connections()
        super().begin(generation, tasks)

    def close(self) -> None:
        """Close all connections, and remove the socket."""
        self.halt()
        self._close_connections()
        self._selector.unregister(self._server)
        self._server.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _close_connections(self) -> None:
        for connection in list(self._connections):
            connection.close(tell=False)

    # ---------------------------------------------------------------- connections

    def _accept(self, mask: int) -> None:
        try:
            sock, _ = self._server.accept()
        except OSError:  # it has gone again, or no descriptor is free
            return
        if len(self._connections) >= MOST_CONNECTIONS or peer(sock).uid != os.geteuid():
            sock.close()
            return
        _Connection(Lines(sock), self._selector, self, self._connections)


class _Connection:
    """One worker's."""

    def __init__(
        self,
        lines: Lines,
        selector: selectors.BaseSelector,
        service: Service,
        connections: set[_Connection],
    ) -> None:
        self._lines = lines
        self._selector = selector
        self._service = service
        self._all = connections
        self._member: Member | None = None
        connections.add(self)
        selector.register(lines.socket, selectors.EVENT_READ, self._ready)

    def _ready(self, mask: int) -> None:
        if self not in self._all:  # closed by what another connection did in the same turn
            return
        try:
            if mask & selectors.EVENT_WRITE:
                self._lines.flush()
                self._watch()
            messages = self._lines.read() if mask & selectors.EVENT_READ else []
        except Gone:
            self.close()
            return
        for message in messages:
            if self in self._all:
                self._handle(message)

    def _handle(self, message: dict[str, Any]) -> None:
        if self._member is not None:
            self._service.handle(self._member, message)
            return
        try:
            self._member = self._service.join(message, self._send)
        except BookError as error:
            self._send({"error": str(error)})
            self.close()

    def _send(self, message: dict[str, Any]) -> None:
        if self not in self._all:
            return
        try:
            self._lines.send(message)
        except Gone:
            # The service may be answering many: it hears of this one's end by the next event.
            with contextlib.suppress(OSError):
                self._lines.socket.shutdown(socket.SHUT_RDWR)
            return
        self._watch()

    def _watch(self) -> None:
        writes = selectors.EVENT_WRITE if self._lines.wants_to_write else 0
        self._selector.modify(self._lines.socket, selectors.EVENT_READ | writes, self._ready)

    def close(self, tell: bool = True) -> None:
        """Close it; `tell`: the service takes back what its worker holds."""
        if self not in self._all:
            return
        self._all.remove(self)
        self._selector.unregister(self._lines.socket)
        self._lines.socket.close()
        if tell and self._member is not None:
            self._service.leave(self._member)
