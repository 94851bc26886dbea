"""The user's end of `radrm run`: listens for its job, and is the job's terminal.

Theory of operation. The functions that wait for the job wait by `pause` of its `Session`, which
handles connections, keys and signals meanwhile. With a terminal, the pause in which the job
connects lasts until the connection ends. Without one, each pause passes standard input on as the
job takes it. Signals only make a note and end a pause, so nothing is
torn in the middle.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import sys
import termios
import time
import tty

from radrm.errors import Refused
from radrm.host.sessions import FOLDER, INPUT, INTERRUPT, MOST, TAKEN, VARIABLE, frame, size_frame
from radrm.host.sockets import listen, peer
from radrm.host.storage.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Say = Callable[[str], object]
    from collections.abc import Mapping

_KEYS = 0
"""Standard input."""
_BUFFER = 64 * 1024
_READ = 4096
"""Bytes that were typed, or pasted, and go into one frame."""
_SEND_S = 10.0


class Session:
    """Listens for one job in a folder of its own. A context manager; then the folder is gone.

    `pty`: standard input and output are a terminal, and the job's command gets one. `seen` is
    called with all that the job prints on it, and may return lines for the user. `cancel` is
    called for the second Ctrl-C.
    """

    def __init__(
        self,
        pty: bool,
        say: Say,
        cancel: Callable[[], object],
        seen: Callable[[bytes], Sequence[str]] = lambda _: (),
    ) -> None:
        self._pty, self._say, self._cancel, self._seen = pty, say, cancel, seen
        self._link: socket.socket | None = None
        self._input_over, self._wanted = sys.stdin is None, False
        """Whether standard input has ended, and whether the job takes more of it."""
        self._interrupts = self._passed_on = 0
        """How often Ctrl-C was typed, and how often something was done about it."""
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, self._interrupted)
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, _leave)
        self._folder = _make_folder()
        path = os.path.join(self._folder, "socket")
        try:
            self._listener = listen(path, backlog=4)
        except BaseException:
            with contextlib.suppress(OSError):
                os.rmdir(self._folder)
            raise
        self._listener.setblocking(False)
        self.environment = {VARIABLE: path}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, "socket"))
            os.rmdir(self._folder)

    @property
    def connected(self) -> bool:
        """True while the job runs at the other end: it ends with the connection."""
        return self._link is not None

    def pause(self, seconds: float) -> bool:
        """Wait. Returns True if the job has used its terminal meanwhile.

        Raises `KeyboardInterrupt` for Ctrl-C while no job is connected, and for the third one;
        `BrokenPipeError` if the reader of standard output closes its end.
        """
        until = time.monotonic() + seconds
        while True:
            self._pass_interrupts()
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            poll.register(self._listener, select.POLLIN)
            poll.register(sys.stdout, 0)
            if self._link is not None:
                poll.register(self._link, select.POLLIN)
            if self._reads:
                poll.register(_KEYS, select.POLLIN)
            ready = dict(poll.poll(left_s * 1000))
            if self._woken in ready:
                self._empty_woken()
            if sys.stdout.fileno() in ready:
                raise BrokenPipeError
            if self._link is not None and self._link.fileno() in ready and not self._hear():
                self._drop()  # the attempt has ended
                return False
            if _KEYS in ready:
                self._pass_input()
            if self._listener.fileno() in ready and self._accept() and self._pty:
                self._be_its_terminal()
                return True

    # ------------------------------------------------------------- signals

    def _interrupted(self, *_: object) -> None:
        self._interrupts += 1

    def _pass_interrupts(self) -> None:
        if self._interrupts == self._passed_on:
            return
        self._passed_on = self._interrupts
        if self._link is None or self._interrupts > 2:
            raise KeyboardInterrupt
        if self._interrupts == 2:
            self._cancel()
        else:
            self._say("sent INT to the job; Ctrl-C again cancels it")
            self._send(frame(INTERRUPT))

    def _empty_woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, _READ)

    # ------------------------------------------------------------- the connection

    def _accept(self) -> bool:
        """Take the connection of the job's next attempt; that of the one before has ended."""
        try:
            link, _ = self._listener.accept()
        except OSError:
            return False
        if peer(link).uid != os.geteuid():
            link.close()
            return False
        self._drop()
        self._link = link
        link.settimeout(_SEND_S)
        self._send(self._size())
        self._wanted = not self._input_over
        if self._input_over:
            self._send(frame(INPUT))
        return self._link is not None

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None

    def _send(self, data: bytes) -> None:
        """Send a few bytes; a connection that does not take them has ended."""
        if self._link is not None:
            try:
                self._link.sendall(data)
            except OSError:
                self._drop()

    def _size(self) -> bytes:
        if not self._pty:
            return size_frame(0, 0)
        size = os.get_terminal_size(sys.stdout.fileno())
        return size_frame(size.lines, size.columns)

    # ------------------------------------------------------------- without a terminal

    @property
    def _reads(self) -> bool:
        """Whether the job takes standard input now. In the background, a read from the terminal
        would stop this process."""
        if self._pty or self._link is None or not self._wanted:
            return False
        try:
            return os.tcgetpgrp(_KEYS) == os.getpgrp()
        except OSError:
            return True  # it is no terminal

    def _hear(self) -> bool:
        """Take the job's answers to its input. False: the connection has ended."""
        assert self._link is not None
        try:
            answers = self._link.recv(_READ)
        except OSError:
            return False
        if answers:
            self._wanted = answers.endswith(TAKEN) and not self._input_over
        return bool(answers)

    def _pass_input(self) -> None:
        """Pass on what can be read now, or the end."""
        try:
            data = os.read(_KEYS, MOST)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a folder, or a terminal that is gone
        self._wanted, self._input_over = False, not data
        self._send(frame(INPUT, data))

    # ------------------------------------------------------------- a terminal

    def _be_its_terminal(self) -> None:
        """Pass bytes on until the connection ends. The terminal is raw meanwhile: all keys go to
        the job, also Ctrl-C and Ctrl-Z."""
        keys = sys.stdin.fileno()
        before = termios.tcgetattr(keys)
        old = signal.signal(signal.SIGWINCH, lambda *_: None)
        try:
            tty.setraw(keys, termios.TCSADRAIN)
            self._relay(keys)
        except OSError:
            pass  # the terminal is gone, and the connection ends with it
        finally:
            signal.signal(signal.SIGWINCH, old)
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(keys, termios.TCSADRAIN, before)
        self._drop()

    def _relay(self, keys: int) -> None:
        assert self._link is not None
        link, screen = self._link, sys.stdout.fileno()
        link.setblocking(False)
        to_job, last, shown = bytearray(), b"\n", b""
        while True:
            poll = select.poll()
            poll.register(self._woken, select.POLLIN)
            poll.register(link, select.POLLIN | (select.POLLOUT if to_job else 0))
            if len(to_job) < _BUFFER:
                poll.register(keys, select.POLLIN)
            ready = dict(poll.poll())
            if self._woken in ready:
                self._empty_woken()
            # Before the keys, which may be typed for the new size: its signal may come meanwhile.
            if (size := self._size()) != shown:
                to_job, shown = to_job + size, size
            if keys in ready:
                typed = os.read(keys, _READ)
                if not typed:
                    return
                to_job += frame(INPUT, typed)
            try:
                if to_job:
                    del to_job[: link.send(to_job)]
            except BlockingIOError:
                pass
            except OSError:
                to_job.clear()  # its last words may still be there to read
            if link.fileno() in ready:
                try:
                    data = link.recv(_BUFFER)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                if not data:
                    write_all(screen, b"" if last.endswith(b"\n") else b"\r\n")
                    return
                write_all(screen, data)
                last = data[-1:]
                if lines := self._seen(data):
                    text = "".join(f"\r\nradrm: {line}" for line in lines)
                    write_all(sys.stderr.fileno(), f"{text}\r\n".encode())


def _leave(number: int, _: object) -> None:
    """The terminal is gone, or this process shall end: leave, and clean up on the way."""
    raise SystemExit(128 + number)


def _make_folder() -> str:
    """A folder that only this user can enter, on this machine."""
    import tempfile  # only once in a session

    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    own = runtime.startswith("/") and os.access(runtime, os.W_OK | os.X_OK)
    return tempfile.mkdtemp(prefix=FOLDER, dir=runtime if own else None)


# ------------------------------------------------------------------
# A Jupyter server in a job: its command, and how to reach it from the user's own machine.


_URL = re.compile(
    rb"(https?://([A-Za-z0-9.-]{1,253}):([0-9]{2,5})/[!->@-~]{0,200}\?token=[!-~]{1,200})\s"
)
_KEPT = 800
"""Bytes of earlier output that may begin an address: no match is longer."""
_SSH_PORT = "22"


def jupyter_command(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The command of `radrm run --jupyter`: JupyterLab, with these arguments.

    Raises `Refused` if it is not installed."""
    from shutil import which  # only notebooks need it

    found = which("jupyter-lab", path=environment.get("PATH"))
    if found is None:
        raise Refused(
            "JupyterLab is not installed: jupyter-lab is not on your PATH; activate the "
            "environment of your notebooks, or install it there: python3 -m pip install jupyterlab"
        )
    # Jupyter refuses root without being told; and its log would bury the address.
    root = ("--allow-root",) if os.geteuid() == 0 else ()
    return (found, "--no-browser", "--log-level=WARN", *root, *arguments)


class JupyterHint:
    """Looks for the address that Jupyter prints.

    It is shown for a user who came by ssh: SSH_CONNECTION then holds the address of this server as
    it is known outside. `asked`: to others, too, with the server's name."""

    def __init__(self, environment: Mapping[str, str], user: str, asked: bool = False) -> None:
        words = environment.get("SSH_CONNECTION", "").split()
        self._server: tuple[str, str] | None = None
        if len(words) == 4:
            self._server = words[2], words[3]
        elif asked:
            self._server = os.uname().nodename, _SSH_PORT
        self._user = user
        self._rest = b""

    def see(self, data: bytes) -> Sequence[str]:
        """Return lines for the user, once, when the output has shown the address."""
        if self._server is None:
            return ()
        text = self._rest + data
        self._rest = text[-_KEPT:]
        found = _URL.search(text)
        if found is None:
            return ()
        (address, port), self._server = self._server, None
        url, host, at = (word.decode() for word in found.groups())
        other = "" if port == _SSH_PORT else f"-p {port} "
        local = url.replace(f"//{host}:", "//localhost:", 1)
        return (
            f"on your own machine, run: ssh -N {other}-L {at}:{host}:{at} {self._user}@{address}",
            f"then open there: {local}",
        )
