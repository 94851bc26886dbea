"""The process that has imported what a runner needs, and forks runners.

    python -I -S forker.py ATTEMPTS

Theory of operation. A new interpreter costs tens of milliseconds, a fork some. The daemon starts
this process (`forking.py`), whose standard input is their socket. It forks a runner at once, and
one more for each `NEXT`, before a start needs it. It gives each to the daemon: `pid` and
`start_ticks`, a pidfd, opened before the runner can be reaped, so no other process can have its
pid, and the socket by which the runner gets its orders; or `errno`, if there can be none.

A runner waits for orders: the `folder` and `token` of an attempt, and whether it is `gated`, with
its gate; then, when all else is done, for the word that the job may begin. Only who has its socket
can give it any, and only once: so there are never two runners of an attempt. By the same socket it
tells that there is a record to read, and at last that it is `FREE` for another attempt: a process
that has run once is faster than a fork. It takes only those of one user, for what it has read of a
job stays in its memory. It ends when the socket does, or when it may not take another attempt
(`_is_clean`).

    the daemon has ended     the sockets say so: forker and waiting runners end, others run on
    the forker has ended     the daemon starts another one; its runners run on
    it stands still          the daemon waits for a moment, kills it, and starts a runner by itself
    radrm is upgraded        the daemon lets go of it and of all that wait: the new code is run

A runner has from this process what it would have from the daemon: user, groups, rights, limits of
resources, priority, CPUs, control group and namespaces. All else is made anew in `_become_runner`:
descriptors, session, signals, environment, name. The forker never learns of any job, and reads
nothing of a user. It blocks all signals: KILL ends it, and nobody loses by that.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts import (
    containers,
    engines,
    leftovers,
    redirected,
    runner,
)
from radrm.host.crossings import crossed
from radrm.host.processes.calls import library
from radrm.host.processes.identity import boot_id
from radrm.host.processes.naming import Shown
from radrm.host.processes.procfs import TOKEN_VARIABLE, read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

IMPORTED = (containers, engines, leftovers, redirected, runner)
"""What each runner imports when its job has begun. The watcher of logs, which few jobs need, would
double what is copied for each fork."""
NAME = "radrm-forker"
NEXT, NOW = {"fork": "next"}, {"fork": "now"}
"""The daemon's messages. Each `NEXT` has one runner forked; `NOW`, at once if it is not yet."""
SPARE_AFTER_S = 0.002
"""Real seconds after `NEXT` until the fork: the start that has taken the last one comes first."""
FREE = b"free"
"""What a runner says that waits for its next orders."""
_RUNNER_NAME = "radrm-runner"
_WAITS = f"{_RUNNER_NAME} (waits)"
_MOST_STARTS = 200
"""Attempts of one runner: what a defect leaves in its memory has an end."""
_MOST_FDS = 2
_LONGEST = 1 << 16
_SPACE = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)
_OWN_FDS = 3
"""Descriptors of a runner between two attempts."""


def main(attempts: str, run: Callable[[str, bool], bool | None] = runner.run) -> int:
    """Serve the daemon at standard input. `run` is what a runner calls for an attempt; `attempts`
    tells in `ps` whose forker this is."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    # What each runner would find out or load: the last is what the C library needs for a user.
    boot_id()
    library()
    if os.geteuid() == 0:
        os.getgrouplist("root", 0)
    close_from(3)
    os.chdir("/")
    os.umask(0o077)
    shown = Shown()
    shown.show(f"{NAME} {attempts}", {})
    shown.rename(NAME)
    daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, os.dup(0))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    forker = Forker(daemon, shown, run)
    gc.collect()
    gc.freeze()  # what is never written to stays shared
    return forker.serve()


class Forker:
    """Forks runners for one daemon until that ends."""

    def __init__(
        self, daemon: socket.socket, shown: Shown, run: Callable[[str, bool], bool | None]
    ) -> None:
        self._daemon = daemon
        self._shown = shown
        self._run = run
        self._woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # else nothing is written there
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> int:
        """Give the daemon a runner, and one more for each `NEXT`, until it has ended."""
        self._hand_over()
        while (words := self._heard(None)) is not None:
            if words == NEXT:  # else the fork that it would hasten is done
                self._heard(SPARE_AFTER_S)
                self._hand_over()
        return 0

    def _heard(self, seconds: float | None) -> dict[str, Any] | None:
        """Wait for a message, for at most so long, and return it; None: the daemon has ended.
        Reap what has ended meanwhile."""
        while True:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            fds = [self._daemon.fileno(), self._woken]
            ready, _, _ = select.select(fds, [], [], seconds)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            if self._woken in ready:
                os.read(self._woken, 4096)
                _reap()
            if self._daemon.fileno() in ready:
                return receive(self._daemon)[0]
            if not ready:
                return {}

    def _hand_over(self) -> None:
        """Fork a runner that waits for its orders, and give it to the daemon."""
        try:
            mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with mine, its:
                pid = os.fork()
                if pid == 0:
                    self._become_runner(its)
                crossed("runner forked")
                stat = read_stat(pid)  # it is not reaped yet, so the pid is its own
                pidfd = os.pidfd_open(pid)
                found = {"pid": pid, "start_ticks": stat.start_ticks if stat is not None else 0}
                try:
                    send(self._daemon, found, [pidfd, mine.fileno()])
                finally:
                    os.close(pidfd)
        except OSError as error:
            with contextlib.suppress(OSError):
                send(self._daemon, {"errno": error.errno}, [])
        crossed("runner handed over")

    def _become_runner(self, orders: socket.socket) -> NoReturn:
        """Be what a new interpreter with `runner` is, and run what is ordered."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            os.dup2(orders.detach(), 1)
            close_from(3)
            self._shown.rename(_RUNNER_NAME)
            self._shown.show(_WAITS, {})
            runner.settle()
            self._obey(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, 1))
            code = 0
        finally:
            os._exit(code)

    def _obey(self, daemon: socket.socket) -> None:
        """Run what is ordered, one attempt after the other."""
        for _ in range(_MOST_STARTS):
            words, gates = receive(daemon)
            while words is not None and "folder" not in words:  # it came too late
                words, gates = receive(daemon)
            if words is None:
                return
            if gates and gates[0] != runner.GATE:
                os.dup2(gates[0], runner.GATE, inheritable=False)
                os.close(gates[0])
            self._shown.show(f"{_RUNNER_NAME} {words['folder']}", {TOKEN_VARIABLE: words["token"]})
            if not self._run(words["folder"], bool(gates)):
                return
            self._shown.show(_WAITS, {})
            if not _is_clean():
                return
            crossed("runner is free")
            daemon.send(FREE)


def _is_clean() -> bool:
    """Forget signals that came too late for an attempt. Return whether it has left nothing open."""
    while signal.sigtimedwait(signal.valid_signals(), 0) is not None:
        pass
    return len(os.listdir("/proc/self/fd")) == _OWN_FDS + 1  # and the listing's own


def _reap() -> None:
    """Reap what has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def close_from(first: int) -> None:
    """Close all descriptors from this number on."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        try:
            if fd >= first:
                os.close(fd)
        except OSError:
            pass


def send(to: socket.socket, words: dict[str, Any], fds: list[int]) -> None:
    """Send one message. Raises `OSError`; EMSGSIZE for one that is too long."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    to.sendmsg([json.dumps(words).encode()], rights)


def receive(by: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message with its descriptors; None: the other end is closed. Raises `OSError`."""
    data, rights, flags, _ = by.recvmsg(_LONGEST, _SPACE, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, raw in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        # A process that may open no more files gets no descriptor.
        return {"errno": 24}, list(fds)
    return (json.loads(data) if data else None), list(fds)


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))
