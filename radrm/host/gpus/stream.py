"""A program that prints lines for as long as it lives, kept alive: `dcgmi dmon`, `nvidia-smi -lms`.

One child and one thread that reads it; never a child per sample. A child that ends, or
prints nothing of use for too long, is ended by its pid and started again after a pause
that doubles. What the lines mean is for whoever asked for them.

A daemon that is killed leaves no child for long: its next line ends it (SIGPIPE).
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
"""Bytes. What comes without a line's end for longer is no line of ours."""
LONGEST_WORDS = 200
"""Characters of a child's last words that are repeated to people."""
LONGEST_ANSWER = 16 << 20
"""Bytes that a short-lived program may print."""
END_LIMIT_S = 2.0
"""Real seconds that a child gets to end, after TERM and again after KILL."""
_LONGEST_WAIT_S = 3600.0


class Heard(Enum):
    """What a line was to the one who takes it."""

    DATA = auto()
    """A measurement: the child does its work."""
    FRAME = auto()
    """Expected, and no measurement: a header."""
    WORDS = auto()
    """Not understood: probably the reason why the child is about to end."""


class Backoff:
    """Pauses between tries, in real seconds: `first_s`, doubling up to `longest_s`.

    They begin anew once a try has lasted for `longest_s`.
    """

    def __init__(self, first_s: float = 1.0, longest_s: float = 60.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def pause_after(self, lasted_s: float) -> float:
        """How long to wait now that a try has ended after `lasted_s`."""
        if lasted_s >= self._longest_s:
            self._next_s = self._first_s
        pause_s = self._next_s
        self._next_s = min(self._longest_s, pause_s * 2)
        return pause_s


class Stream:
    """Keeps one child running and hands on its lines, from a thread of its own.

    `prepare` gives the command line and may take its time, and raise `DeviceError`;
    `take` is given every line that is not blank. Both are called by that thread. After
    `silent_s` real seconds without data the child is given up (infinity: one that may well
    have nothing to say).
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[[], Sequence[str]],
        take: Callable[[str], Heard],
        *,
        silent_s: float = 15.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self.trouble: str | None = None
        """Why nothing comes at the moment, in words that name the program; None while it does."""
        self._prepare = prepare
        self._take = take
        self._silent_s = silent_s
        self._backoff = backoff or Backoff()
        self._told: str | None = None
        self._closing = False
        self._renewing = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._begun = False

    def start(self) -> None:
        """Begin, once; at once when it has begun already."""
        if not self._begun:
            self._begun = True
            self._thread.start()

    def renew(self) -> None:
        """End the child and prepare another: what was asked of it has changed."""
        self._renewing = True
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End the child and the thread; it cannot be started again."""
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
                cause = self._serve()
            except (DeviceError, OSError) as error:
                cause = str(error)
            except Exception as error:  # whatever a damaged line has led to
                cause = f"{self.name}: {type(error).__name__}: {error}"
            if self._closing or self._renewing:
                continue
            self._fail(cause)
            self._sleep(self._backoff.pause_after(time.monotonic() - began))

    def _serve(self) -> str:
        """Run one child until it is over. Why it is over, in words."""
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
            return self._listen(child)
        finally:
            end(child)

    def _listen(self, child: subprocess.Popen[bytes]) -> str:
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
                    self._slept()
                if child.stdout.fileno() in ready:
                    chunk = os.read(child.stdout.fileno(), LONGEST_LINE)
                    if not chunk:
                        return f"{self.name} has ended: {words or _exit_words(child)}"
                    *lines, pending = (pending + chunk).split(b"\n")
                    pending = pending if len(pending) <= LONGEST_LINE else b""
                    for line in lines:
                        text = line.decode(errors="replace").strip()
                        if not text:
                            continue
                        heard = self._take(text)
                        if heard is Heard.DATA:
                            until = time.monotonic() + self._silent_s
                            self._recover()
                        elif heard is Heard.WORDS:
                            words = shown(text)
                if time.monotonic() >= until:
                    said = f" (it said: {words})" if words else ""
                    return f"{self.name} gives no readings{said}; it is started again"
        return ""

    def _sleep(self, pause_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            if selector.select(pause_s):
                self._slept()

    def _slept(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass

    # ------------------------------------------------------------- what is said

    def _fail(self, cause: str) -> None:
        self.trouble = cause
        if cause != self._told:
            log.warning("%s", cause)
            self._told = cause

    def _recover(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            log.info("%s gives readings again", self.name)


# ------------------------------------------------------------------ children


def plain_environment() -> Mapping[str, str]:
    """This process's environment, with the numbers of children written as everywhere."""
    return {**os.environ, "LC_ALL": "C"}


def ask(command: Sequence[str], limit_s: float = 10.0) -> str:
    """What a short-lived program prints. Raises `DeviceError` where it does not end well."""
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
    """All that it prints. Raises `TimeoutError`, and `OverflowError` where that has no end."""
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
    """End a child that leads a session of its own, and all that it has started there."""
    if child.stdout is not None:
        child.stdout.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        try:
            os.killpg(child.pid, number)  # not reaped yet, so the number is still its own
            child.wait(END_LIMIT_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    if child.poll() is None:
        log.warning("process %d (%s) cannot be ended", child.pid, child.args)


def shown(text: str) -> str:
    """Words of a program, fit for one line of ours."""
    return plain(text[:LONGEST_WORDS])


def _exit_words(child: subprocess.Popen[bytes]) -> str:
    try:
        code = child.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        return "it has closed its output"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
