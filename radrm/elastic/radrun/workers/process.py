"""One worker process: its start, its channel, its end.

A worker leads a session of its own, so a signal of the terminal does not reach it: `radrun` passes
signals on. The kernel kills it when `radrun` ends. Its standard input is empty; its output is
that of `radrun`.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from radrm.elastic.radrun.placement import Task
from radrm.errors import UsageError
from radrm.host.processes.procfs import read_stat
from radrm.host.processes.tree import die_with

_MOST_LINE = 4096
_STANDBY_PY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standby.py")


class Program(Struct, frozen=True):
    """What one worker runs. `place`: a folder that has `radrm.elastic`."""

    script: str
    arguments: Sequence[str]
    module: bool
    no_python: bool
    place: str


class Worker:
    """A worker of one task.

    `ready`: it waits for `go`. `begun`: it has been let go. `code` and `signal`: how it ended.
    `killed`: radrun has sent KILL. `judged`: its end has been looked at. `out_of_memory`: the
    kernel has killed it for its host memory.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        task: Task,
        program: Program,
        environment: Mapping[str, str],
        imports: Sequence[str] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.task = task
        self.ready = False
        self.begun = False
        self.code: int | None = None
        self.signal: int | None = None
        self.killed = False
        self.judged = False
        self.out_of_memory = False
        self._selector = selector
        self._on_change = on_change
        self._unread = b""
        self._first = {"module": program.module, "place": program.place, "imports": list(imports)}
        ours, theirs = socket.socketpair()
        argv, inherited = _command(program, theirs.fileno())
        me = os.getpid()
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=inherited,
                start_new_session=True,
                preexec_fn=lambda: _in_child(me),
            )
        except OSError as error:
            ours.close()
            raise UsageError(f"{argv[0]} cannot be started: {error.strerror}") from None
        finally:
            theirs.close()
        self.pid = self._process.pid
        now = read_stat(self.pid)
        self.start_ticks = now.start_ticks if now is not None else 0
        self._pidfd = os.pidfd_open(self.pid)
        selector.register(self._pidfd, selectors.EVENT_READ, lambda mask: self._reap())
        self._channel: socket.socket | None = ours if inherited else None
        if self._channel is None:
            ours.close()
            self.ready = self.begun = True  # a program of its own cannot wait
        else:
            self._channel.setblocking(False)
            selector.register(self._channel, selectors.EVENT_READ, lambda mask: self._receive())
            self._say(self._first)

    @property
    def ended(self) -> bool:
        return self.code is not None or self.signal is not None

    def go(self, environment: Mapping[str, str]) -> None:
        """Let it run its program, with these variables as well."""
        self.begun = True
        self._say({"go": dict(environment)})

    def send(self, number: int) -> None:
        """Signal the worker, if it has not ended."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, number)
            self.killed = self.killed or number == signal.SIGKILL

    def status(self) -> str:
        """How it ended, as in "ended with exit code 1"."""
        if self.signal is not None:
            with contextlib.suppress(ValueError):
                name = signal.Signals(self.signal).name
                cause = ": the server's memory was used up" if self.out_of_memory else ""
                return f"was ended by signal {self.signal} ({name}){cause}"
            return f"was ended by signal {self.signal}"
        return f"ended with exit code {self.code}"

    def exit_code(self) -> int:
        """The exit code as a shell has it: 128 + n for signal n."""
        return 128 + self.signal if self.signal is not None else self.code or 0

    # ---------------------------------------------------------------- events

    def _reap(self) -> None:
        code = self._process.poll()
        if code is None:
            return
        if code < 0:
            self.signal = -code
        else:
            self.code = code
        self._selector.unregister(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._close()
        self._on_change()

    def _receive(self) -> None:
        assert self._channel is not None
        try:
            part = self._channel.recv(_MOST_LINE)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        self._unread += part
        if not part or len(self._unread) > _MOST_LINE:
            self._close()
            return
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            if b'"cold"' in line:
                self._say(self._first)
            elif b'"ready"' in line:
                self.ready = True
                self._on_change()

    def _say(self, message: dict[str, Any]) -> None:
        """Send a line. It blocks: the worker reads it at once, or its end ends the wait."""
        if self._channel is None:
            return
        try:
            self._channel.setblocking(True)
            self._channel.settimeout(10.0)
            self._channel.sendall(json.dumps(message).encode() + b"\n")
            self._channel.setblocking(False)
        except OSError:
            self._close()

    def _close(self) -> None:
        if self._channel is not None:
            self._selector.unregister(self._channel)
            self._channel.close()
            self._channel = None


def _command(program: Program, fd: int) -> tuple[list[str], list[int]]:
    """The command of a worker, and the descriptors that it inherits."""
    if program.no_python:
        return [program.script, *program.arguments], []
    for name in ("python", "python3"):
        python = shutil.which(name)
        if python is not None:
            words = [python, "-u", _STANDBY_PY, str(fd), program.script, *program.arguments]
            return words, [fd]
    raise UsageError("no python and no python3 is on PATH; activate your environment first")


def _in_child(parent: int) -> None:
    """Between fork and exec: no thread runs in radrun, so Python may be used."""
    die_with(parent)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
