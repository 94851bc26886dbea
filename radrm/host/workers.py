"""Processes that compute for the daemon: one question at a time, with limits. First its own side.

A message between the two is its length (4 bytes, big-endian) and MessagePack.

Theory of operation: one thread asks, and `close` may come from another at any moment. `close` only
kills the worker; a question under way then fails and cleans up. An error or a late answer ends the
worker, so no answer can belong to an earlier question. Nothing survives a restart.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from radrm.host.processes import calls
from radrm.host.processes.tree import die_with

START_LIMIT_S = 30.0
"""Real seconds in which a new worker must become ready."""


class Worker:
    """One process at a time. One thread uses it; any thread may call `close`.

    `first` returns the packed message that a new process gets. Its answer is checked by `ready`,
    which raises `EOFError` if the process cannot work. `whose` is for errors, as in `their
    process ended`.
    """

    def __init__(
        self,
        command: Sequence[str],
        first: Callable[[], bytes],
        max_answer: int,
        whose: str,
        ready: Callable[[bytes], object],
    ) -> None:
        self._command = command
        self._first = first
        self._max_answer = max_answer
        self._whose = whose
        self._ready = ready
        self._closed = False
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, question: bytes, limit_s: float) -> bytes:
        """The answer to a packed question. Any error ends the process; the next question gets a
        new one.

        Raises `TimeoutError` after the limit, else `OSError` or `EOFError`.
        """
        try:
            process = self.process or self._start()
            self._send(process, question, limit_s)
            return self._receive(process, limit_s)
        except BaseException:
            self.end()
            raise

    def prepare(self) -> None:
        """Start a process, so that the first question does not wait for it. Raises as `ask`."""
        try:
            self.process = self.process or self._start()
        except BaseException:
            self.end()
            raise

    def close(self) -> None:
        """End the process for good; safe from another thread."""
        self._closed = True
        process = self.process
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()

    def end(self) -> None:
        """End the process, and those that it started."""
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _start(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise EOFError("the daemon ends")
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        self.process = process
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        try:
            self._send(process, self._first(), START_LIMIT_S)
            self._ready(self._receive(process, START_LIMIT_S))
        except TimeoutError:
            late = f"{self._whose} process did not start within {START_LIMIT_S:g} s"
            raise EOFError(late) from None
        return process

    @staticmethod
    def _send(process: subprocess.Popen[bytes], data: bytes, limit_s: float) -> None:
        assert process.stdin is not None
        target, until = process.stdin.fileno(), time.monotonic() + limit_s
        rest = memoryview(data)
        while rest:
            _wait(target, select.POLLOUT, until)
            try:
                rest = rest[os.write(target, rest[: 1 << 16]) :]
            except BrokenPipeError:
                return  # It has ended; `_receive` finds what it said before that.

    def _receive(self, process: subprocess.Popen[bytes], limit_s: float) -> bytes:
        assert process.stdout is not None
        source, until = process.stdout.fileno(), time.monotonic() + limit_s
        found = bytearray()
        while len(found) < LENGTH or len(found) < LENGTH + int.from_bytes(found[:LENGTH], "big"):
            _wait(source, select.POLLIN, until)
            part = os.read(source, 1 << 16)
            if not part:
                raise EOFError(f"{self._whose} process ended")
            found += part
            if len(found) > self._max_answer:
                limit = self._max_answer >> 20
                raise EOFError(f"{self._whose} answer is longer than {limit} MiB")
        return bytes(found[LENGTH:])


def _wait(fd: int, what: int, until: float) -> None:
    """Wait until `fd` is ready. Raises TimeoutError at the time `until`."""
    poll = select.poll()
    poll.register(fd, what)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise TimeoutError


# ------------------------------------------------------------------
# The side of the process: its pipes, and the limits that it sets itself before it works.
#
# The kernel enforces them, so they hold whatever the code does that it runs.


MEMORY_BYTES = 4 << 30
"""Address space of a worker."""
_NOBODY = 65534


def take_pipes() -> tuple[int, int]:
    """The descriptors of questions and answers.

    Standard input and output become /dev/null: what the code reads or prints must not mix with
    the messages.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return source, target


def give_up_rights(parent: int) -> None:
    """Limit memory, write no file, be nobody instead of root, and end with the parent."""
    calls.library()  # `die_with` needs it, and nobody may be unable to read its files
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError):  # there is already a lower limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    die_with(parent)


def end_after(seconds: float) -> None:
    """Have the kernel end this process after `seconds`; 0: never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


# ------------------------------------------------------------------
# Messages on a pipe: a length (4 bytes, big-endian) and MessagePack.


LENGTH = 4
MAX_MESSAGE = 128 << 20
"""Bytes: the longest trace plus the longest envelope, with room to spare."""


def packed(message: object) -> bytes:
    """A message as bytes for the pipe."""
    data = msgspec.msgpack.encode(message, enc_hook=_plain)
    return len(data).to_bytes(LENGTH, "big") + data


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):  # a read-only view of a dict
        return dict(value)
    raise NotImplementedError(f"a message cannot hold a {type(value).__name__}")


def read(source: int, kind: Any) -> Any:
    """The next message; None at the end of the input."""
    head = _exactly(source, LENGTH)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_MESSAGE:
        raise EOFError(f"a message has {size >> 20} MiB; the limit is {MAX_MESSAGE >> 20} MiB")
    data = _exactly(source, size)
    return None if data is None else msgspec.msgpack.decode(data, type=kind)


def _exactly(source: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = os.read(source, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write(target: int, data: bytes) -> None:
    """Write all of a packed message."""
    while data:
        data = data[os.write(target, data) :]
