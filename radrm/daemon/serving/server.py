"""The socket: one request a line, one answer a line, both JSON.

Theory of operation. The kernel names the client's user (SO_PEERCRED); the request cannot. A
thread per connection reads requests and writes answers, and the loop's thread works on them. The
two meet in `Request`: under its lock, either the work begins or the request is given up. So a
client that got "nothing was done" can rely on it. Connections, bytes and time of one user are
bounded, so that a slow or hostile client does not delay others. A restart ends all connections;
clients ask again.

The socket's folder may be removed under the daemon: by a person, or at the end of a user's last
session (/run/user/UID). Then the thread that accepts makes both anew, once that is possible.
"""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from radrm.config import NOBODY, UserLimits
from radrm.daemon.serving.replies import Held, encoded, refusal, weight
from radrm.daemon.serving.slots import LONGEST_WAIT_S, Connection, Rates, Slots
from radrm.errors import RadrmError, Refused, Unreachable
from radrm.host.home import Held as HeldPlaces
from radrm.host.sockets import Peer, connect, listen, peer

log = logging.getLogger("radrm")

MAX_REQUEST = 512 * 1024
IDLE_S = 60.0
PATIENCE_S = 60.0
"""A request that waits this long for its turn is withdrawn."""
LONGEST_S = 600.0
"""A request that has taken this long in all is stopped."""
_STOPPING_S = 30.0
_LOOK_S = 0.5
"""Seconds between two looks at whether the client is still connected."""
_SIGN_OF_LIFE_S = 20.0
"""Seconds between two blanks that are sent before an answer; JSON readers skip them."""
_SEND_S = 15.0
"""Seconds in which a client must read an answer, or a piece of a long one."""
_BACKLOG = 512
"""Connections that the kernel queues, so that a burst of one client does not refuse others."""
_KEEP_S = 1.0
"""Seconds without a new connection between two looks at whether the path leads to the socket."""
_AFTER_ERROR_S = 0.2
"""Seconds until the next try when no connection can be accepted (too many open files)."""


class Request:
    """One question or command, its progress, and the place for its answer.

    It is *given up* when its client has gone or has waited too long. Work that has not begun by
    then never begins; work that has begun is stopped between two pieces.
    """

    def __init__(self, line: bytes, client: Peer) -> None:
        self.line = line
        self.client = client
        self.words: dict[str, Any] = {}
        self.done = self.total = 0
        """For how many jobs a command was carried out, and how many it is about."""
        self.given_up = False
        self._begun = False
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._answer: dict[str, Any] = {}

    # ------------------------------------------------------------- for the loop's thread

    def begin(self) -> bool:
        """Begin the work. False if the request was given up: then do nothing."""
        with self._lock:
            self._begun = not self.given_up
            return self._begun

    def answer(self, result: Any) -> None:
        self._answer = {"ok": True, "result": result}
        self._answered.set()

    def refuse(self, error: RadrmError) -> None:
        self._answer = refusal(str(error), error.exit_code)
        self._answered.set()

    def stopped(self) -> None:
        """Answer that the work was stopped, because the request was given up."""
        why = "the request took too long and was stopped; nothing was changed"
        if self.total:
            why = (
                f"the command took too long and was stopped after {self.done} of {self.total} "
                "jobs; give it again for the others"
            )
            log.info("uid %d: %s", self.client.uid, why)
        self._answer = refusal(why, 1)
        self._answered.set()

    # ------------------------------------------------------------- for the client's thread

    def withdraw(self) -> bool:
        """Give the request up if its work has not begun. False if it has: the work goes on."""
        with self._lock:
            if not self._begun:
                self.given_up, self.line = True, b""
            return not self._begun

    def give_up(self) -> None:
        """Give the request up. The loop's thread stops work that has begun."""
        with self._lock:
            self.given_up, self.line = True, b""

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """The answer; None if there is none within this time."""
        return self._answer if self._answered.wait(seconds) else None


class Server:
    """Listens at `path`; calls `submit` with each request, from threads of its own.

    `make_folder` makes the folder of `path` anew, if it is missing. It raises `RadrmError`.
    """

    def __init__(
        self,
        path: str,
        everybody: bool,
        submit: Callable[[Request], None],
        users: UserLimits = NOBODY,
        make_folder: Callable[[], None] = lambda: None,
    ) -> None:
        self._path, self._mode = path, 0o666 if everybody else 0o600
        self._make_folder = make_folder
        self._unreached = False
        self._listen()
        self._submit = submit
        self._slots = Slots()
        if users.shared:
            self._slots = Slots(of_one_user=lambda uid: users.of(uid).connections)
        self._rates = Rates(lambda uid: users.of(uid).requests_per_s)
        self._held = Held()
        self._closing = False
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="server", daemon=True)

    def _listen(self) -> None:
        """Listen at the path. Raises OSError."""
        opened, place = listen(self._path, self._mode, _BACKLOG), HeldPlaces()
        try:
            place.hold(self._path)
        except OSError:
            opened.close()
            raise
        opened.settimeout(_KEEP_S)
        self._socket, self._place = opened, place

    def _keep(self) -> None:
        """Listen anew if the path does not lead to the socket any more."""
        if self._place.lost() is None:
            return
        before = self._socket
        try:
            self._make_folder()
            self._refuse_other()
            self._listen()
        except (RadrmError, OSError) as error:
            if not self._unreached:
                log.error(
                    "the socket %s was removed and cannot be made anew, so no command reaches this "
                    "daemon; it tries again: %s",
                    self._path,
                    error,
                )
            self._unreached = True
            return
        before.close()
        self._unreached = False
        log.warning("the socket %s was removed, and is made anew", self._path)

    def _refuse_other(self) -> None:
        """Raise `Refused` if another process listens at the path: its socket is not replaced."""
        try:
            connect(self._path, _KEEP_S).close()
        except (Unreachable, OSError):
            return
        raise Refused("another process listens there; end it")

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
        """Accept connections. Nothing here waits for a client."""
        while True:
            try:
                accepted, _ = self._socket.accept()
            except TimeoutError:
                if self._closing:
                    return
                self._keep()
                continue
            except OSError as error:
                if self._closing:
                    return
                log.error("a client cannot be let in: %s", error)
                self._pause.wait(_AFTER_ERROR_S)
                continue
            try:
                accepted.settimeout(IDLE_S)
                connection = Connection(accepted, peer(accepted))
            except OSError:
                accepted.close()  # the client has gone
                continue
            why_not = self._slots.admit(connection)
            if why_not is None:
                try:
                    threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
                    continue
                except RuntimeError as error:
                    log.error("a client cannot be served: %s", error)
                    self._slots.leave(connection)
                    why_not = "the daemon cannot start another thread; try again"
            _turn_away(accepted, why_not)

    def _serve(self, connection: Connection) -> None:
        try:
            with connection.socket, connection.socket.makefile("rb") as lines:
                # A connection counts as a request: else to connect and leave would cost nothing.
                if (too_many := self._wait_turn(connection)) is not None:
                    self._send(too_many, connection)
                    return
                while line := lines.readline(MAX_REQUEST + 1):
                    connection.silent = False
                    answer = self._wait_turn(connection) or self._ask(line, connection)
                    if answer is None:
                        return
                    connection.since, connection.silent = time.monotonic(), True
                    self._send(answer, connection)
                    if len(line) > MAX_REQUEST:
                        return
                    connection.since = time.monotonic()
                    del line, answer
                    connection.socket.settimeout(IDLE_S)
        except OSError:
            pass  # the client has gone, says nothing, or does not read
        finally:
            self._slots.leave(connection)

    def _send(self, answer: dict[str, Any], connection: Connection) -> None:
        connection.socket.settimeout(_SEND_S)
        pieces = encoded(answer)
        first = next(pieces)
        with self._held.while_sent(connection, max(len(first), weight(answer))):
            for data in itertools.chain((first,), pieces):
                connection.socket.sendall(data)

    def connections_of(self, uid: int) -> int:
        """Return the number of a user's open connections. Safe in any thread."""
        return self._slots.of(uid)

    def _wait_turn(self, connection: Connection) -> dict[str, Any] | None:
        """Wait if this user makes many requests. Returns a refusal if that would take too long."""
        uid = connection.client.uid
        wait_s = self._rates.take(uid)
        if wait_s > LONGEST_WAIT_S:
            return refusal(self._rates.refusal(uid, wait_s), Unreachable.exit_code)
        if wait_s:
            self._pause.wait(wait_s)
        return None

    def _ask(self, line: bytes, connection: Connection) -> dict[str, Any] | None:
        """The answer; None when the client has gone."""
        if len(line) > MAX_REQUEST:
            return refusal(f"the request is longer than {MAX_REQUEST // 1024} KiB", 2)
        request = Request(line, connection.client)
        self._submit(request)
        asked = life = time.monotonic()
        while True:
            answer = request.wait(_LOOK_S)
            if answer is not None:
                return answer
            now = time.monotonic()
            if connection.gone:
                request.give_up()
                return None
            if now - asked >= PATIENCE_S and request.withdraw():
                why = "the daemon is too busy to answer; nothing was done"
                return refusal(why, Unreachable.exit_code)
            if now - asked >= LONGEST_S:
                request.give_up()
                return request.wait(_STOPPING_S) or refusal(
                    "the daemon is too busy to say how far this request has come; "
                    "look at: radrm status",
                    1,
                )
            if now - life >= _SIGN_OF_LIFE_S:
                life = now
                connection.socket.sendall(b" ")


def _turn_away(accepted: socket.socket, why_not: str) -> None:
    """Send one line to a client that gets no connection, if that is possible at once."""
    try:
        accepted.setblocking(False)
        for data in encoded(refusal(why_not, Unreachable.exit_code)):
            accepted.send(data)
    except OSError:
        pass
    accepted.close()
