"""The process that has imported what a runner needs, and forks one for each attempt.

    python -I -S forker.py ATTEMPTS

Theory of operation. A new interpreter costs tens of milliseconds, a fork some. The daemon starts
this process (`forking.py`), whose standard input is their socket. A message there, a JSON object
with descriptors, asks for one runner: with its `folder`, its `token`, whether it is `gated`, its
standard output and its gate. The answer has its `pid` and `start_ticks`, and a pidfd, opened before
the runner can be reaped, so no other process can have its pid; or `errno`, if there can be none.

A runner is forked before it is asked for, if there is time (`SPARE_AFTER_S`): this *spare* waits
for the message, which the forker passes on to it. It holds nothing of any job, and ends with the
forker. Of several requests at once, each later one has its runner forked first.

    the daemon has ended     the socket says so: the forker ends, and its runners run on
    the forker has ended     the daemon starts another one; its runners run on
    it stands still          the daemon waits for a moment, kills it, and starts a runner by itself
    its files have changed   it says so and ends: an upgrade is run, not what was imported

So that there are never two runners of an attempt, each waits for a word of the daemon before it
does anything. That word comes after the answer; where none comes, the runner ends without a trace.

A runner has from this process what it would have from the daemon: user, groups, rights, limits of
resources, priority, CPUs, control group and namespaces. All else is made anew in `_become_runner`:
descriptors, session, signals, environment, name. The forker holds nothing of any job, and reads
nothing of a user. It blocks all signals: KILL ends it, and nobody loses by that.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
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
    start_runner,
)
from radrm.host.crossings import crossed
from radrm.host.processes.calls import library
from radrm.host.processes.identity import boot_id
from radrm.host.processes.naming import Shown
from radrm.host.processes.procfs import TOKEN_VARIABLE, read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

IMPORTED = (containers, engines, leftovers, redirected, runner)
"""What each runner imports when its job has begun. The watcher of logs, which few jobs need, would
double what is copied for each fork."""
NAME = "radrm-forker"
SPARE_AFTER_S = 0.002
"""Real seconds without a request after which a spare is forked: no start waits for that."""
_RUNNER_NAME = "radrm-runner"
_ABOVE = 16
"""Numbers of descriptors that no runner gets begin here."""
READY, STALE = {"ready": True}, {"stale": True}
"""Its first message, and its last one."""
MOST_FDS = 2
_LONGEST = 1 << 16
_SPACE = socket.CMSG_SPACE(MOST_FDS * array.array("i").itemsize)


def main(attempts: str, run: Callable[[str], int] = start_runner.main) -> int:
    """Serve the daemon at standard input. `run` is what each fork runs, with its folder; `attempts`
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
    send(daemon, READY, [])
    return forker.serve()


class Spare:
    """A runner that waits at its end of a socket for what it is to run."""

    def __init__(self, pid: int, orders: socket.socket) -> None:
        """It is not reaped yet, so the pid is its own. Raises `OSError`: then it ends."""
        self.pid = pid
        self._orders = orders
        stat = read_stat(pid)
        self.start_ticks = stat.start_ticks if stat is not None else 0
        try:
            self.pidfd = os.pidfd_open(pid)
        except OSError:
            orders.close()
            raise

    def begin(self, words: dict[str, Any], fds: list[int]) -> None:
        """Have it run an attempt. Raises `OSError` if it has ended."""
        send(self._orders, words, fds)

    def close(self) -> None:
        """It ends, unless it has got its orders."""
        self._orders.close()
        os.close(self.pidfd)


class Forker:
    """Answers one daemon until that ends."""

    def __init__(self, daemon: socket.socket, shown: Shown, run: Callable[[str], int]) -> None:
        self._daemon = daemon
        self._shown = shown
        self._run = run
        self._spare: Spare | None = None
        self._files = files()
        self._stamps = stamps(self._files)
        self._woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # else nothing is written there
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> int:
        """Fork what is asked for, until the daemon has ended or a file has changed."""
        while True:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            patience_s = SPARE_AFTER_S if self._spare is None else None
            fds = [self._daemon.fileno(), self._woken]
            ready, _, _ = select.select(fds, [], [], patience_s)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if self._daemon.fileno() in ready and not self._answer():
                return 0
            if not ready:
                with contextlib.suppress(OSError):  # the next start reports the error
                    self._spare = self._fork()

    def _answer(self) -> bool:
        """Answer one message; False for the last one."""
        words, fds = receive(self._daemon)
        try:
            if words is None:
                return False
            if stamps(self._files) != self._stamps:
                send(self._daemon, STALE, [])
                return False
            if "errno" in words:
                send(self._daemon, words, [])
                return True
            crossed("start asked for")
            self._start(words, fds)
            return True
        finally:
            for fd in fds:
                os.close(fd)

    def _start(self, words: dict[str, Any], fds: list[int]) -> None:
        """Have a runner begin, and answer the daemon."""
        spare, self._spare = self._spare, None
        try:
            try:
                runner = spare or self._fork()
                runner.begin(words, fds)
            except OSError:
                if spare is None:
                    raise
                spare.close()  # somebody has killed it
                runner = self._fork()
                runner.begin(words, fds)
        except OSError as error:
            send(self._daemon, {"errno": error.errno}, [])
            return
        try:
            its = {"pid": runner.pid, "start_ticks": runner.start_ticks}
            send(self._daemon, its, [runner.pidfd])
        finally:
            runner.close()
        crossed("runner handed over")

    def _fork(self) -> Spare:
        """Fork a runner that waits for its orders. Raises `OSError`."""
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            try:
                pid = os.fork()
            except OSError:
                mine.close()
                raise
            if pid == 0:
                self._become_runner(its)
        crossed("runner forked")
        return Spare(pid, mine)

    def _become_runner(self, orders: socket.socket) -> NoReturn:
        """Be what `start_runner` is after its `execve`, and run what is ordered."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            close_from(3, orders.fileno())
            runner.settle()
            words, fds = receive(orders)
            if words is not None:
                code = self._run_attempt(words, fds)
        finally:
            os._exit(code)

    def _run_attempt(self, words: dict[str, Any], fds: list[int]) -> int:
        gate = fds[1] if words["gated"] else None
        _take_descriptors(fds[0], gate)
        environment = {TOKEN_VARIABLE: words["token"]}
        if gate is not None:
            environment |= start_runner.GATED
        os.environ.update(environment)
        self._shown.show(f"{_RUNNER_NAME} {words['folder']}", environment)
        self._shown.rename(_RUNNER_NAME)
        # Nothing to read: the daemon has ended, or does not count on this one.
        return self._run(words["folder"]) if os.read(1, 1) else 0

    def _reap(self) -> None:
        """Reap what has ended."""
        try:
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if self._spare is not None and pid == self._spare.pid:
                    self._spare.close()
                    self._spare = None
        except ChildProcessError:
            pass


def _take_descriptors(output: int, gate: int | None) -> None:
    """Have the null device, this output and this gate, and nothing else open."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    # First out of the way, for one may have the number that another is to get.
    taken = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in (null, output)]
    if gate is not None:
        taken.append(fcntl.fcntl(gate, fcntl.F_DUPFD_CLOEXEC, _ABOVE))
    os.dup2(taken[0], 0)
    os.dup2(taken[1], 1)
    os.dup2(taken[0], 2)
    if gate is not None:
        os.dup2(taken[2], start_runner.GATE)
    close_from(start_runner.GATE + (gate is not None))


def files() -> list[str]:
    """The files of radrm that were imported here, and the interpreter's."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = [str(getattr(each, "__file__", None) or "") for each in tuple(sys.modules.values())]
    ours = [path for path in found if path.startswith(here + os.sep)]
    return [*ours, sys.executable, str(os.__file__)]


def stamps(files: Iterable[str]) -> list[tuple[int, int, int]]:
    """What changes when one of these files is replaced."""
    return [_stamp(path) for path in files]


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


def close_from(first: int, kept: int = -1) -> None:
    """Close all descriptors from this number on, but this one."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        try:
            if fd >= first and fd != kept:
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
