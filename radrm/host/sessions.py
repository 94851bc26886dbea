"""`radrm run`, in the job: connects back, starts the command, ends it with the connection.

    python -I -S sessions.py [--pty] -- COMMAND...

Theory of operation. The user's `radrm run` listens on a socket in a folder that only the user can
enter (`client/session.py`). The job's command is this program. The kernel tells both sides who the
other one is, so no secret is needed: a process that can enter the folder as this user can do
anything to the job in any case. The daemon sees an ordinary job with limits, a place in the queue
and an exit code; it carries no byte of the session, and a session survives its restart. With a
terminal (`--pty`) this makes one for the command and passes bytes on; otherwise the command writes
to the job's logs, and reads a pipe, which gets the standard input of `radrm run`.

It runs as the job, with the standard library alone. RADRM_SESSION names the socket. Its exit status
is the command's: also a death by a signal. The daemon asks for an end by TERM, as of any job: this
program does not catch it, so a command that saves on TERM is asked first, and the connection ends
last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import sys
import termios
import time

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2)))

from radrm.errors import Unreachable
from radrm.host.sockets import connect, peer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

VARIABLE = "RADRM_SESSION"
FOLDER = "radrm-run-"
"""What the name of a session's folder begins with. It holds the socket alone."""
EXIT_HUNG_UP = 129
"""Nobody listens any more: as a death by HUP."""
_PROMPT_S = 30.0
"""How long the other side may take to say its first word: it may stand still."""
_HUP_S, _TERM_S = 10.0, 30.0
"""How long a command has to end after HUP, and then after TERM. The runner kills what is left."""
_LAST_S = 10.0
"""How long a slow terminal may take for the last bytes."""
_BUFFER = 64 * 1024
"""Bytes that wait for the terminal, and for the command. Beyond them the writer waits."""


class Gone(Exception):
    """The other side does not listen any more: why."""


def main(words: Sequence[str]) -> int:
    """Run a session. Returns the exit status; ends by a signal if the command did."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    cut = words.index("--")
    path = os.environ.pop(VARIABLE, "")
    try:
        link, first = _connected(path)
    except Gone as why:
        _tidy(path)
        _tell(f"no radrm run waits for this job: {why}; submit it by radrm submit instead")
        return EXIT_HUNG_UP
    status = Session(link, first, "--pty" in words[:cut], words[cut + 1 :]).run()
    if status is None:
        _tidy(path)
        _tell("the terminal of this job is gone, so it has ended")
        return EXIT_HUNG_UP
    if os.WIFSIGNALED(status):
        _die_of(os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status) & 0xFF


def _connected(path: str) -> tuple[socket.socket, bytes]:
    """The connection to the user's `radrm run`, and its first bytes: it is there, and not only
    its socket. Raises `Gone`."""
    try:
        link = connect(path, _PROMPT_S)
        other = peer(link)
        if other.uid != os.geteuid():
            raise Gone(f"user {other.uid} listens there, and the job is user {os.geteuid()}'s")
        first = link.recv(_BUFFER)
        if not first:
            raise Gone("it has ended")
        link.setblocking(False)
        return link, first
    except (Unreachable, OSError) as error:
        raise Gone(str(error)) from None


def _tidy(path: str) -> None:
    """Remove the socket of a `radrm run` that was killed, and its folder, which is then empty."""
    folder = os.path.dirname(path)
    if os.path.basename(folder).startswith(FOLDER):
        with contextlib.suppress(OSError):
            os.unlink(path)
            os.rmdir(folder)


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"radrm: {text}\n".encode("utf-8", "replace"))


def _die_of(number: int) -> None:
    """End by the same signal, without a core file of this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # KILL cannot be caught anyway
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Session:
    """One command and its connection. `pty`: the command gets a terminal. `first`: the first bytes
    that have come, with the terminal's size."""

    def __init__(
        self, link: socket.socket, first: bytes, pty: bool, command: Sequence[str]
    ) -> None:
        self._link, self._frames = link, Frames()
        self._terminal: int | None = None
        """Our end of the command's terminal."""
        self._pipe: int | None = None
        """Without a terminal: our end of the command's standard input."""
        self._input_over = False
        self._to_command, self._to_user = bytearray(), bytearray()
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._child = 0
        if pty:
            self._terminal, its = os.openpty()
            os.set_blocking(self._terminal, False)
        else:
            its, self._pipe = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._pipe, False)
        self._sound = self._take(first)
        # An interrupt that comes before the command itself must not meet Python's handler.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._child = os.fork()
        if self._child == 0:
            _become(command, its, pty, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if not pty:
            with contextlib.suppress(OSError):  # whichever of the two is first
                os.setpgid(self._child, self._child)
        os.close(its)

    def run(self) -> int | None:
        """Pass bytes on until the command ends. Returns its wait status; None: the connection has
        ended, and the command was asked to."""
        while True:
            status = self._ended()
            if status is not None:
                self._pass_the_rest()
                return status
            if not self._sound or not self._step(None):
                self._hang_up()
                return None

    def _ended(self) -> int | None:
        pid, status = os.waitpid(self._child, os.WNOHANG)
        return status if pid else None

    def _step(self, seconds: float | None) -> bool:
        """Wait for something, and pass it on. False: the connection has ended."""
        poll, events = select.poll(), 0
        if len(self._to_command) < _BUFFER:
            events |= select.POLLIN
        if self._to_user:
            events |= select.POLLOUT
        poll.register(self._link, events)
        poll.register(self._woken, select.POLLIN)
        if self._terminal is not None:
            events = select.POLLIN if len(self._to_user) < _BUFFER else 0
            poll.register(self._terminal, events | (select.POLLOUT if self._to_command else 0))
        if self._pipe is not None:
            poll.register(self._pipe, select.POLLOUT if self._to_command else 0)
        ready = dict(poll.poll(None if seconds is None else seconds * 1000))
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._terminal is not None and self._terminal in ready:
            self._read_terminal()
            self._write_terminal()
        if self._pipe is not None and self._pipe in ready:
            self._write_pipe(bool(ready[self._pipe] & select.POLLERR))
        try:
            self._write_user()
            found = ready.get(self._link.fileno(), 0)
            if found & select.POLLIN:
                return self._read_user()
            return not found & (select.POLLHUP | select.POLLERR)
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _read_user(self) -> bool:
        data = self._link.recv(_BUFFER)
        return bool(data) and self._take(data)

    def _take(self, data: bytes) -> bool:
        """Do what the user's end says. False: it speaks no language of ours."""
        try:
            for kind, content in self._frames.feed(data):
                if kind == INPUT:
                    self._to_command += content
                    self._input_over = self._input_over or not content
                    if self._terminal is None:
                        self._write_pipe()
                elif kind == SIZE:
                    self._resize(*size_of(content))
                elif kind == INTERRUPT:
                    self._signal(signal.SIGINT)
        except ValueError:
            return False
        return True

    def _write_user(self) -> None:
        if self._to_user:
            with contextlib.suppress(BlockingIOError):
                del self._to_user[: self._link.send(self._to_user)]

    def _read_terminal(self) -> None:
        """Read what the command has printed. The kernel answers EIO when nobody has the command's
        end open any more."""
        assert self._terminal is not None
        if len(self._to_user) >= _BUFFER:
            return
        try:
            self._to_user += os.read(self._terminal, _BUFFER)
        except BlockingIOError:
            pass
        except OSError:
            self._close_terminal()

    def _write_terminal(self) -> None:
        if self._terminal is not None and self._to_command:
            with contextlib.suppress(OSError):
                del self._to_command[: os.write(self._terminal, self._to_command)]

    def _write_pipe(self, unread: bool = False) -> None:
        """Write the input to the command. Say so once it has all, or once nobody reads it any more
        (`unread`)."""
        if self._pipe is None:
            self._to_command.clear()
            return
        waited = bool(self._to_command)
        try:
            if unread:
                raise BrokenPipeError
            del self._to_command[: os.write(self._pipe, self._to_command)]
        except BlockingIOError:
            return
        except OSError:
            self._to_command.clear()
            self._to_user += UNREAD
            self._close_pipe()
            return
        if not self._to_command and self._input_over:
            self._close_pipe()
        elif not self._to_command and waited:
            self._to_user += TAKEN

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
        self._pipe = None

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)
        self._terminal = None

    def _resize(self, rows: int, columns: int) -> None:
        if self._terminal is not None:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def _signal(self, number: int) -> None:
        """Signal the process group that the command leads."""
        if self._child:
            with contextlib.suppress(OSError):
                os.killpg(self._child, number)

    def _pass_the_rest(self) -> None:
        """Pass on what the command has printed before its end; its children may still print."""
        until = time.monotonic() + _LAST_S
        while self._terminal is not None and time.monotonic() < until:
            before = len(self._to_user)
            self._read_terminal()
            if len(self._to_user) == before < _BUFFER:
                break
            with contextlib.suppress(OSError):
                self._link.settimeout(_LAST_S)
                self._link.sendall(self._to_user)
            self._to_user.clear()
        with contextlib.suppress(OSError):
            self._link.settimeout(_LAST_S)
            self._link.sendall(self._to_user)
        self._link.close()

    def _hang_up(self) -> None:
        """End the command: HUP if it has a terminal, then TERM."""
        self._link.close()
        steps = [(signal.SIGTERM, _TERM_S)]
        if self._terminal is not None:
            self._close_terminal()  # the kernel sends HUP to what runs in the foreground, too
            steps.insert(0, (signal.SIGHUP, _HUP_S))
        for number, seconds in steps:
            self._signal(number)
            self._signal(signal.SIGCONT)
            until = time.monotonic() + seconds
            while self._ended() is None:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    break
                if select.select([self._woken], [], [], left_s)[0]:
                    os.read(self._woken, 4096)
            else:
                return


def _become(
    command: Sequence[str], its: int, pty: bool, mask: set[signal.Signals | int]
) -> NoReturn:
    """Become the command, in this fresh child. `its`: the terminal that it gets, or its standard
    input. `mask`: the signals that it blocks."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if pty:
            os.setsid()
            fcntl.ioctl(its, termios.TIOCSCTTY, 0)
        else:
            os.setpgid(0, 0)
        for target in range(3 if pty else 1):
            os.dup2(its, target)
        os.execvp(command[0], list(command))
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        step = "correct its name or the PATH" if missing else "check that it is a program"
        cause = "there is no such program" if missing else error.strerror
        _tell(f"cannot run {command[0]}: {cause}; {step}")
        os._exit(127 if missing else 126)
    finally:
        os._exit(1)


# ------------------------------------------------------------------
# What the terminal sends to the job: bytes that were typed, the terminal's size, interrupts.
#
# A frame is its kind (one byte), the length of its content (two bytes, big-endian) and the content.
# The other way there are no frames. With a terminal there are only the bytes that the command
# prints. Without one the job answers each INPUT by a byte, and the next INPUT comes after that: so
# no input waits in the connection, and an interrupt never waits behind it.


INPUT, SIZE, INTERRUPT = 1, 2, 3
"""Kinds. The first frame of a session is a SIZE: rows and columns, two bytes each. An INPUT without
content is the end of the input."""
TAKEN, UNREAD = b"t", b"u"
"""Without a terminal: the command has got the input; nobody reads it any more."""
MOST = 16 * 1024
"""Bytes of one frame's content."""
_HEAD = struct.Struct("!BH")
_SIZE = struct.Struct("!HH")


def frame(kind: int, content: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(content)) + content


def size_frame(rows: int, columns: int) -> bytes:
    return frame(SIZE, _SIZE.pack(min(rows, 0xFFFF), min(columns, 0xFFFF)))


def size_of(content: bytes) -> tuple[int, int]:
    """Rows and columns. Raises ValueError for the content of no SIZE frame."""
    if len(content) != _SIZE.size:
        raise ValueError(f"a size of {len(content)} bytes")
    rows, columns = _SIZE.unpack(content)
    return rows, columns


class Frames:
    """Puts frames together from pieces of any length. It keeps less than one frame."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that are complete now: kinds and contents. Raises ValueError for
        anything else."""
        found, at, self._rest = [], 0, self._rest + data
        while len(self._rest) - at >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._rest, at)
            if kind not in (INPUT, SIZE, INTERRUPT) or length > MOST:
                raise ValueError(f"a frame of kind {kind} with {length} bytes")
            end = at + _HEAD.size + length
            if end > len(self._rest):
                break
            found.append((kind, self._rest[at + _HEAD.size : end]))
            at = end
        self._rest = self._rest[at:]
        return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
