"""Run a program that prints lines until it ends, and restart it: `dcgmi dmon`, `nvidia-smi -lms`.

Theory of operation. A stream has one child and one thread, which reads the child's lines; it
never starts a child per sample. If the child ends, or prints no data for too long, the thread
ends it and starts another after a pause that doubles. The thread sets `error`; other threads
only read it. They set `_closing` and `_renewing`, then write to an eventfd to wake the thread.
A daemon that is killed leaves a child without a reader: SIGPIPE ends it at its next line. The
caller gives the lines their meaning.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

from radrm.errors import DeviceError, plain

log = logging.getLogger("radrm")

LONGEST_LINE = 1 << 16
"""Bytes. Longer output without a line end is dropped."""
LONGEST_WORDS = 200
"""Characters of a child's last line that messages quote."""
LONGEST_ANSWER = 16 << 20
"""Bytes that a short-lived program may print."""
END_LIMIT_S = 2.0
"""Real seconds that a child has to end, after TERM and again after KILL."""
_LONGEST_WAIT_S = 3600.0


class LineKind(Enum):
    """What kind of line a child printed."""

    DATA = auto()
    """A measurement: the child works."""
    HEADER = auto()
    """Expected, but no measurement: a header, say."""
    MESSAGE = auto()
    """Not understood. It is probably the reason why the child will end."""


class Backoff:
    """Pauses between tries, in real seconds: `first_s`, doubling up to `longest_s`.

    After a try that lasted `longest_s` the pauses start at `first_s` again.
    """

    def __init__(self, first_s: float = 1.0, longest_s: float = 60.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def pause_after(self, lasted_s: float) -> float:
        """Return the pause after a try that lasted `lasted_s`."""
        if lasted_s >= self._longest_s:
            self._next_s = self._first_s
        pause_s = self._next_s
        self._next_s = min(self._longest_s, pause_s * 2)
        return pause_s


class Stream:
    """Keeps one child running and passes its lines on, from its own thread.

    `prepare` returns the command line; it may wait, and raise `DeviceError`. `take` receives
    every line that is not blank. The thread calls both. After `silent_s` real seconds without
    data the child is replaced; infinity is for a child that may have nothing to print.
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[[], Sequence[str]],
        take: Callable[[str], LineKind],
        *,
        silent_s: float = 15.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self.error: str | None = None
        """Why no data comes now, as a message that names the program; None while data comes."""
        self._prepare = prepare
        self._take = take
        self._silent_s = silent_s
        self._backoff = backoff or Backoff()
        self._logged: str | None = None
        self._closing = False
        self._renewing = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._begun = False

    def start(self) -> None:
        """Start the thread, unless it has started already."""
        if not self._begun:
            self._begun = True
            self._thread.start()

    def renew(self) -> None:
        """Replace the child, because its command line has changed."""
        self._renewing = True
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End the child and the thread. A closed stream cannot be started again."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._wake, 1)
        if self._begun:
            self._thread.join(timeout=3 * END_LIMIT_S)
        if not self._thread.is_alive():
            os.close(self._wake)

    # ------------------------------------------------------------- the thread

    def _run(self) -> None:
        while not self._closing:
            self._renewing = False
            began = time.monotonic()
            try:
                cause = self._run_child()
            except (DeviceError, OSError) as error:
                cause = str(error)
            except Exception as error:  # a damaged line must not end the thread
                cause = f"{self.name}: {type(error).__name__}: {error}"
            if self._closing or self._renewing:
                continue
            self._fail(cause)
            self._sleep(self._backoff.pause_after(time.monotonic() - began))

    def _run_child(self) -> str:
        """Run one child until it ends or is replaced. Return the reason as a message."""
        command = self._prepare()
        if self._closing:
            return ""
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=plain_environment(),
            start_new_session=True,
        )
        try:
            return self._read_lines(child)
        finally:
            end(child)

    def _read_lines(self, child: subprocess.Popen[bytes]) -> str:
        assert child.stdout is not None
        pending, words = b"", ""
        until = time.monotonic() + self._silent_s
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not (self._closing or self._renewing):
                patience_s = min(_LONGEST_WAIT_S, max(0.0, until - time.monotonic()))
                ready = {key.fd for key, _ in selector.select(patience_s)}
                if self._wake in ready:
                    self._clear_wake()
                if child.stdout.fileno() in ready:
                    chunk = os.read(child.stdout.fileno(), LONGEST_LINE)
                    if not chunk:
                        return f"{self.name} has ended: {words or _describe_exit(child)}"
                    *lines, pending = (pending + chunk).split(b"\n")
                    pending = pending if len(pending) <= LONGEST_LINE else b""
                    for line in lines:
                        text = line.decode(errors="replace").strip()
                        if not text:
                            continue
                        heard = self._take(text)
                        if heard is LineKind.DATA:
                            until = time.monotonic() + self._silent_s
                            self._recover()
                        elif heard is LineKind.MESSAGE:
                            words = shown(text)
                if time.monotonic() >= until:
                    printed = f" (it printed: {words})" if words else ""
                    return (
                        f"{self.name} gave no reading for {self._silent_s:g} s{printed}; "
                        "radrm restarts it"
                    )
        return ""

    def _sleep(self, pause_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            if selector.select(pause_s):
                self._clear_wake()

    def _clear_wake(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass

    # ------------------------------------------------------------- messages

    def _fail(self, cause: str) -> None:
        self.error = cause
        if cause != self._logged:
            log.warning("%s", cause)
            self._logged = cause

    def _recover(self) -> None:
        if self.error is not None:
            self.error = None
            log.info("%s gives readings again", self.name)


# ------------------------------------------------------------------ children


def plain_environment() -> Mapping[str, str]:
    """Return this process's environment with the C locale: children then write `0.5`, not `0,5`."""
    return {**os.environ, "LC_ALL": "C"}


def ask(command: Sequence[str], limit_s: float = 10.0) -> str:
    """Return what a short-lived program prints.

    Raises `DeviceError` if it cannot run, fails, prints too much, or exceeds `limit_s`.
    """
    name = os.path.basename(command[0])
    until = time.monotonic() + limit_s
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=plain_environment(),
        )
    except FileNotFoundError:
        raise DeviceError(f"{name} is not installed") from None
    except OSError as error:
        raise DeviceError(f"{name} cannot be run: {error.strerror}") from error
    try:
        printed = _printed(child, until).decode(errors="replace")
        code = child.wait(max(0.0, until - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise DeviceError(f"{name} does not answer within {limit_s:g} s") from None
    except OverflowError:
        raise DeviceError(f"{name} prints more than {LONGEST_ANSWER >> 20} MiB") from None
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
    if code != 0:
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        why = shown(lines[0]) if lines else f"exit code {code}"
        raise DeviceError(f"{name} does not work here: {why}")
    return printed


def _printed(child: subprocess.Popen[bytes], until: float) -> bytes:
    """Return all output. Raises `TimeoutError`; `OverflowError` if it exceeds `LONGEST_ANSWER`."""
    assert child.stdout is not None
    source, found = child.stdout.fileno(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, until - time.monotonic())):
                raise TimeoutError
            part = os.read(source, LONGEST_LINE)
            if not part:
                return bytes(found)
            found += part
            if len(found) > LONGEST_ANSWER:
                raise OverflowError


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child that leads its own session, and all processes of its process group."""
    if child.stdout is not None:
        child.stdout.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        try:
            os.killpg(child.pid, number)  # it is not reaped yet, so the pid is not reused
            child.wait(END_LIMIT_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    if child.poll() is None:
        log.warning(
            "process %d (%s) does not end, even by KILL; end it by hand", child.pid, child.args
        )


def shown(text: str) -> str:
    """Return the text of a program, cut and cleaned to fit into one line of a message."""
    return plain(text[:LONGEST_WORDS])


def _describe_exit(child: subprocess.Popen[bytes]) -> str:
    try:
        code = child.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        return "it has closed its output"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
