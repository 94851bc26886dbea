"""The daemon's side of its forker: start it, have it fork runners, notice when it fails.

Theory of operation. Nothing depends on the forker. Until it is ready, after it has ended, and when
it does not answer in time, `take` returns None: the caller starts a new interpreter, and the next
forker starts meanwhile. Where several in a row never got ready, that one starts after a rest. One
that does not answer is killed. A runner that is not taken ends when its socket is closed: at the
latest with the daemon.

Used by the daemon's one thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
from math import inf
from time import monotonic

from msgspec import Struct

import radrm
from radrm.host.attempts import forker
from radrm.host.attempts.forker import FREE, NEXT, NOW, receive, send
from radrm.host.attempts.runner import BEGIN, STORED
from radrm.host.crossings import crossed
from radrm.host.processes.identity import Identity, boot_id
from radrm.host.processes.naming import ROOM

log = logging.getLogger("radrm")

PATIENCE_S = 2.0
"""How long an answer is waited for: the daemon does nothing else meanwhile."""
_LONGEST_TOKEN = 200
"""Characters that surely fit where a runner shows its token (`ROOM`)."""
_MOST_FAILURES = 3
"""So many forkers in a row may fail to get ready."""
REST_S = 60.0
"""Real seconds after these until the next one: a full server may have let none start."""


_PACKAGE = os.path.dirname(radrm.__file__)
_FOLDERS = ("", "host", "host/attempts", "host/attempts/elastic", "host/processes", "host/storage")
"""Those of the code of runners. An upgrade renames its files into them."""


class Runner(Struct):
    """A forked runner that waits for orders. It has run attempts of `user` alone; None: of the
    daemon's own, or none yet."""

    identity: Identity
    pidfd: int
    orders: int
    """The socket by which it is ordered, and tells of records."""
    user: int | None = None
    serial: int | None = None
    """The last attempt that it has run."""

    def order(self, folder: str, token: str, gate: int | None) -> None:
        """Have it run an attempt, whose job waits for `let_begin`. Raises `OSError` if it has
        ended, or cannot take this one."""
        if len(token) > _LONGEST_TOKEN:
            raise OSError("it cannot show this token")
        self._say({"folder": folder, "token": token}, [] if gate is None else [gate])

    def let_begin(self, folder: str) -> None:
        """Let the job of the attempt that it was ordered to run begin."""
        with contextlib.suppress(OSError):  # it has ended
            self._say({BEGIN: folder}, [])

    def give_up(self) -> None:
        """Have it end before its job has begun, and wait for that. It holds nothing any more."""
        os.close(self.orders)
        select.select([self.pidfd], [], [], PATIENCE_S)
        os.close(self.pidfd)

    def say_stored(self, folder: str) -> None:
        """Tell it that the end of its last attempt is stored: its record need not survive."""
        with contextlib.suppress(OSError):  # it has ended
            self._say({STORED: folder}, [])

    def _say(self, words: dict[str, str], fds: list[int]) -> None:
        to = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, self.orders)
        try:
            send(to, words, fds)
        finally:
            to.detach()

    def is_free(self) -> bool:
        """Return whether it has said that it may take another attempt."""
        said = b""
        with contextlib.suppress(OSError):
            while (heard := os.read(self.orders, 64)) != b"":
                said = heard
        return said == FREE

    def close(self) -> None:
        """It ends, unless it has got orders."""
        os.close(self.pidfd)
        os.close(self.orders)


class Forker:
    """The forker of one daemon, whose attempts lie in the folder `attempts`."""

    def __init__(self, attempts: str) -> None:
        self._attempts = attempts
        self._socket: socket.socket | None = None
        self._pid = 0
        self._ready = False
        """Whether it has given a runner, or said why not."""
        self._stamps: list[tuple[int, int, int]] = []
        self._failures = 0
        self._rests_until_s = -inf
        self._ended: set[int] = set()
        """Forkers that were killed and are not reaped."""

    @property
    def pid(self) -> int:
        """The forker's pid; 0 if none runs."""
        return self._pid if self._socket is not None else 0

    def start(self) -> None:
        """Start the process unless there is one; do not wait until it is ready."""
        self._reap()
        if self._socket is not None or monotonic() < self._rests_until_s:
            return
        try:
            self._spawn()
        except OSError as error:
            log.warning("the forker of runners cannot be started: %s", error)
            self._fail()

    def _fail(self) -> None:
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._failures, self._rests_until_s = 0, monotonic() + REST_S

    def _spawn(self) -> None:
        self._stamps = _stamps()
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            try:
                self._pid = os.posix_spawn(
                    sys.executable,
                    [sys.executable, "-I", "-S", forker.__file__, self._attempts],
                    ROOM,
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, its.fileno(), 0),
                        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
                        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_RDWR, 0),
                    ],
                    setsid=True,
                    setsigmask=signal.valid_signals(),
                )
            except OSError:
                mine.close()
                raise
        self._socket, self._ready = mine, False
        crossed("forker started")

    @property
    def is_current(self) -> bool:
        """False if other code has been installed since it was started; the next start makes a new
        one then."""
        if self._socket is not None and _stamps() != self._stamps:
            self._let_go()
        return self._socket is not None

    def take(self) -> Runner | None:
        """Return a runner that waits for orders; None: a new interpreter is to run the attempt.

        Raises `OSError` where the system takes no more processes.
        """
        if not self.is_ready():
            return None
        found = self._next()
        if isinstance(found, OSError):  # it may be old
            found = self._next()
        if isinstance(found, OSError):
            raise found
        return found

    def _next(self) -> Runner | OSError | None:
        """Receive the runner that was asked for, and ask for one more."""
        found: Runner | OSError | None = None
        try:
            try:
                found = self._receive(0.0)
            except TimeoutError:
                self._say(NOW)
                crossed("runner asked for")
                found = self._receive(PATIENCE_S)
            self._say(NEXT)
        except OSError:
            self._let_go()
            self.start()
        return found

    def is_ready(self) -> bool:
        """Return whether the forker can fork runners; start one if none runs."""
        self.start()
        if self._socket is not None and not self._ready:
            try:
                has_ended = not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            if has_ended:
                self._let_go()
                self._fail()
            else:
                self._failures, self._ready = 0, True
        return self._ready

    def _say(self, words: dict[str, str]) -> None:
        if self._socket is not None:
            send(self._socket, words, [])

    def _receive(self, seconds: float) -> Runner | OSError:
        """Return a runner, or the error of its fork. Raises `OSError` if the forker fails."""
        if self._socket is None:
            raise ConnectionResetError("there is no forker")
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        if not poller.poll(seconds * 1000):
            raise TimeoutError("the forker does not answer")
        found, fds = receive(self._socket)
        if found is not None and "pid" in found and len(fds) == 2:
            os.set_blocking(fds[1], False)
            return Runner(Identity(found["pid"], found["start_ticks"], boot_id()), *fds)
        for fd in fds:
            os.close(fd)
        if found is None or "errno" not in found:
            raise ConnectionResetError("the forker has ended")
        return OSError(found["errno"], os.strerror(found["errno"]))

    def _let_go(self) -> None:
        """Have the process end: nothing that it does from now on counts."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket, self._ready = None, False
        os.kill(self._pid, signal.SIGKILL)  # it is not reaped, so the pid is its own
        self._ended.add(self._pid)
        self._reap()

    def _reap(self) -> None:
        for pid in tuple(self._ended):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._ended.discard(pid)

    def close(self) -> None:
        """End the process, and start no other one. Its runners run on."""
        self._rests_until_s = inf
        self._let_go()
        for pid in self._ended:
            pidfd = os.pidfd_open(pid)  # it is not reaped
            select.select([pidfd], [], [], PATIENCE_S)
            os.close(pidfd)
        self._reap()


def _stamps() -> list[tuple[int, int, int]]:
    """What changes when radrm or Python is upgraded."""
    folders = (os.path.join(_PACKAGE, folder) for folder in _FOLDERS)
    return [_stamp(path) for path in (*folders, sys.executable, str(os.__file__))]


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns
