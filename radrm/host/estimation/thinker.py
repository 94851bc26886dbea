"""The daemon's side of the worker: starts it, asks it, limits its time, ends it.

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
import sys
import time
from collections.abc import Sequence

import msgspec

from radrm.config import Config
from radrm.errors import RadrmError
from radrm.host.estimation.asking import Answer
from radrm.host.estimation.worker import Question, packed

START_LIMIT_S = 30.0
"""Real seconds in which a new worker must become ready."""
MAX_ANSWER = 1 << 20
COMMAND = (sys.executable, "-m", "radrm.host.estimation.worker")


class NoAnswer(RadrmError):
    """The estimators gave no answer about a job; the line gives the reason."""


class Thinker:
    """One worker at a time. One thread uses it; any thread may call `close`."""

    def __init__(self, config: Config, command: Sequence[str] = COMMAND) -> None:
        self._config = config
        self._command = command
        self._worker: subprocess.Popen[bytes] | None = None
        self._closed = False

    def ask(self, question: Question) -> Answer:
        """The worker's answer. Raises `NoAnswer`; the next question then gets a new worker."""
        limit_s = self._config.estimation.time_limit_s
        try:
            worker = self._worker or self._start()
            self._send(worker, packed(question), limit_s)
            return self._receive(worker, limit_s)
        except TimeoutError:
            self._end()
            raise NoAnswer(f"the estimators took longer than {limit_s:g} s") from None
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            self._end()
            what = str(error) or "their process ended"
            raise NoAnswer(f"the estimators failed: {what}") from None

    def close(self) -> None:
        """End the worker; safe from another thread."""
        self._closed = True
        worker = self._worker
        if worker is not None:
            with contextlib.suppress(OSError):
                worker.kill()

    def prepare(self) -> None:
        """Start a worker, so that the first question does not wait for its start."""
        with contextlib.suppress(OSError, EOFError, msgspec.MsgspecError):
            self._worker = self._worker or self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise EOFError("the daemon ends")
        worker = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        self._worker = worker
        assert worker.stdin is not None and worker.stdout is not None
        os.set_blocking(worker.stdin.fileno(), False)
        self._send(worker, packed(self._config.to_table()), START_LIMIT_S)
        self._receive(worker, START_LIMIT_S)
        return worker

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(worker.pid, signal.SIGKILL)  # also processes that an estimator started
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    @staticmethod
    def _send(worker: subprocess.Popen[bytes], data: bytes, limit_s: float) -> None:
        assert worker.stdin is not None
        target, until = worker.stdin.fileno(), time.monotonic() + limit_s
        while data:
            _wait(target, select.POLLOUT, until)
            data = data[os.write(target, data[: 1 << 16]) :]

    @staticmethod
    def _receive(worker: subprocess.Popen[bytes], limit_s: float) -> Answer:
        assert worker.stdout is not None
        source, until = worker.stdout.fileno(), time.monotonic() + limit_s
        found = b""
        while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
            _wait(source, select.POLLIN, until)
            part = os.read(source, 1 << 16)
            if not part:
                raise EOFError("their process ended")
            found += part
            if len(found) > MAX_ANSWER:
                raise EOFError(f"their answer is longer than {MAX_ANSWER >> 20} MiB")
        return msgspec.msgpack.decode(found[4:], type=Answer)


def _wait(fd: int, what: int, until: float) -> None:
    """Wait until `fd` is ready. Raises TimeoutError at the time `until`."""
    poll = select.poll()
    poll.register(fd, what)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise TimeoutError
