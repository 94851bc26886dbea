"""The socket: one request a line, one answer a line, both JSON.

Who asks is what the kernel says (SO_PEERCRED), never what the request says. A
thread per connection reads words and hands them to the daemon's own thread; it
touches nothing else, so a slow or hostile client delays nobody.
"""

from __future__ import annotations

import json
import logging
import queue
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from radrm.errors import RadrmError
from radrm.host.sockets import Peer, listen, peer

log = logging.getLogger("radrm")

MAX_REQUEST = 1024 * 1024
MAX_CONNECTIONS = 256
MAX_OF_ONE_USER = 128
"""So that one user's idle connections do not keep the others out."""
IDLE_S = 60.0
PATIENCE_S = 60.0
_AFTER_TROUBLE_S = 0.2
"""Out of descriptors, say: before the next try."""


@dataclass(slots=True)
class Request:
    """One question or order, and the place for its answer."""

    words: dict[str, Any]
    client: Peer
    _answer: queue.SimpleQueue[dict[str, Any]] = field(default_factory=queue.SimpleQueue)

    def answer(self, result: Any) -> None:
        self._answer.put({"ok": True, "result": result})

    def refuse(self, error: RadrmError) -> None:
        self._answer.put({"ok": False, "error": str(error), "code": error.exit_code})

    def wait(self) -> dict[str, Any]:
        try:
            return self._answer.get(timeout=PATIENCE_S)
        except queue.Empty:
            return {"ok": False, "error": "the daemon is too busy to answer", "code": 1}


class Server:
    """Listens at `path`; hands each request to `submit`, from threads of its own."""

    def __init__(self, path: str, everybody: bool, submit: Callable[[Request], None]) -> None:
        self._socket = listen(path, 0o666 if everybody else 0o600)
        self._submit = submit
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._of_user: Counter[int] = Counter()
        self._counting = threading.Lock()
        self._closing = False
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="server", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._pause.set()
        # Closing alone would not wake the thread that waits in accept.
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _accept(self) -> None:
        while True:
            self._room.acquire()
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                self._room.release()
                if self._closing:
                    return
                log.error("a client cannot be let in: %s", error)
                self._pause.wait(_AFTER_TROUBLE_S)
                continue
            threading.Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _admit(self, connection: socket.socket) -> None:
        """Serve a connection, unless its user has too many already."""
        uid = None
        try:
            client = peer(connection)
            with self._counting:
                if self._of_user[client.uid] < MAX_OF_ONE_USER:
                    uid = client.uid
                    self._of_user[uid] += 1
            if uid is not None:
                self._serve(connection, client)
        except OSError:
            pass  # the client has gone
        finally:
            connection.close()
            if uid is not None:
                with self._counting:
                    self._of_user[uid] -= 1
            self._room.release()

    def _serve(self, connection: socket.socket, client: Peer) -> None:
        try:
            with connection:
                connection.settimeout(IDLE_S)
                with connection.makefile("rb") as lines:
                    while line := lines.readline(MAX_REQUEST + 1):
                        answer = self._ask(line, client)
                        connection.sendall(json.dumps(answer).encode("ascii") + b"\n")
                        if len(line) > MAX_REQUEST:
                            return
        except OSError:
            pass  # the client has gone, or says nothing

    def _ask(self, line: bytes, client: Peer) -> dict[str, Any]:
        if len(line) > MAX_REQUEST:
            return {"ok": False, "error": "the request is longer than 1 MiB", "code": 2}
        try:
            words = json.loads(line)
        except (ValueError, RecursionError):
            words = None
        if not isinstance(words, dict):
            return {"ok": False, "error": "the request is not a JSON object", "code": 2}
        request = Request(words=words, client=client)
        self._submit(request)
        return request.wait()
