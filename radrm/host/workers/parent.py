"""The daemon's side of a worker: starts it, asks it, limits its time, ends it.

Theory of operation: one thread asks, and `close` may come from another at any moment. `close` only
kills the worker; a question under way then fails and cleans up. An error or a late answer ends the
worker, so no answer can belong to an earlier question. Nothing survives a restart.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from radrm.host.workers.messages import LENGTH

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
