"""The daemon's side of its forker: start it, have it fork runners, notice when it is of no use.

Theory of operation. Nothing depends on the forker. Until it is ready, after it has ended, and when
it does not answer in time, `fork` returns None: the caller starts a new interpreter, and the next
forker starts meanwhile. Where several in a row never got ready, that one starts after a rest. One
that does not answer may stand still in the middle of a fork. It is killed, and its runner, if there
is one, never gets the word that it waits for.

Used by the daemon's one thread.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
from math import inf
from time import monotonic
from typing import Any

from msgspec import Struct

from radrm.host.attempts import forker
from radrm.host.attempts.forker import READY, receive, send
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


class Forked(Struct, frozen=True):
    """A runner that was forked. It waits for a word at its output. `pidfd` is the receiver's."""

    identity: Identity
    pidfd: int


class Forker:
    """The forker of one daemon, whose attempts lie in the folder `attempts`."""

    def __init__(self, attempts: str) -> None:
        self._attempts = attempts
        self._socket: socket.socket | None = None
        self._pid = 0
        self._ready = False
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

    def fork(self, folder: str, token: str, output: int, gate: int | None) -> Forked | None:
        """Have a runner forked with this output and gate; None: a new interpreter is to run it.

        It ends without a trace unless a byte can be read from its output. Raises `OSError` where
        the system takes no more processes.
        """
        if len(token) > _LONGEST_TOKEN or not self.is_ready() or self._socket is None:
            return None
        words = {"folder": folder, "token": token, "gated": gate is not None}
        try:
            send(self._socket, words, [output] if gate is None else [output, gate])
            crossed("runner asked for")
            answer, fds = self._receive(PATIENCE_S)
        except OSError:
            answer, fds = None, []
        if answer is not None and isinstance(answer.get("errno"), int):
            _close(fds)
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        if answer is None or "pid" not in answer or len(fds) != 1:
            _close(fds)
            self._let_go()
            self.start()
            return None
        return Forked(Identity(answer["pid"], answer["start_ticks"], boot_id()), fds[0])

    def is_ready(self) -> bool:
        """Return whether the forker can fork runners; start one if none runs."""
        self.start()
        if self._socket is not None and not self._ready:
            try:
                said, _ = self._receive(0.0)
            except TimeoutError:
                return False
            except OSError:
                said = None
            self._ready = said == READY
            if self._ready:
                self._failures = 0
            else:
                self._let_go()
                self._fail()
        return self._ready

    def _receive(self, seconds: float) -> tuple[dict[str, Any] | None, list[int]]:
        assert self._socket is not None
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        if not poller.poll(seconds * 1000):
            raise TimeoutError("the forker does not answer")
        return receive(self._socket)

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


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
