"""The job's end of a session, against a socket that a test holds: the command gets a terminal, its
size, what is typed and what is interrupted; and it ends with the connection."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host import sessions
from radrm.host.sessions import INPUT, INTERRUPT, MOST, TAKEN, UNREAD, frame, size_frame
from radrm.host.sockets import listen
from tests.elastic.radrun.runs.place import lives
from tests.waiting import PATIENCE_S, wait_until


def _heed_hup() -> None:
    """As a runner does: tests may have been started by `nohup`, which makes programs ignore HUP."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Terminal:
    """The user's end: a socket, and the program that connects to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "socket"
        self.listener = listen(self.path)
        self.listener.settimeout(PATIENCE_S)
        self.errors = folder / "errors"
        self.process: subprocess.Popen[bytes] | None = None
        self.link: socket.socket | None = None

    def start(self, *words: str, size: tuple[int, int] | None = (24, 80)) -> None:
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", sessions.__file__, *words],
                env={**os.environ, sessions.VARIABLE: str(self.path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                preexec_fn=_heed_hup,
            )
        self.link, _ = self.listener.accept()
        self.link.settimeout(PATIENCE_S)
        if size is not None:
            self.send(size_frame(*size))

    def send(self, data: bytes) -> None:
        self.link.sendall(data)

    def read(self, wanted: bytes | None = None) -> bytes:
        """What comes until `wanted` has come, or until the end."""
        assert self.link is not None
        seen = b""
        while wanted is None or wanted not in seen:
            data = self.link.recv(65536)
            if not data:
                assert wanted is None, f"{wanted!r} is not in {seen!r}"
                return seen
            seen += data
        return seen

    def hang_up(self) -> None:
        self.link.close()

    def code(self) -> int:
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    found = Terminal(tmp_path)
    yield found
    if found.process is not None:
        found.process.kill()
        found.process.wait()
    if found.link is not None:
        found.link.close()
    found.listener.close()


def test_the_command_has_a_terminal_of_the_size_of_the_users(terminal: Terminal) -> None:
    terminal.start("--pty", "--", "sh", "-c", "stty size; read line; stty size; echo $line; exit 7")
    terminal.read(b"24 80")
    terminal.send(size_frame(50, 132) + frame(INPUT, b"typed\r"))
    said = terminal.read()
    assert b"50 132" in said and said.count(b"typed") == 2, "echoed, and printed"
    assert terminal.code() == 7


WAITS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("on", flush=True)
open(sys.argv[1], "w").close()
signal.sigwait({signal.SIGINT})
print("caught")
sys.exit(3)
"""
"""Waits for INT, and cannot miss it."""


def test_ctrl_c_reaches_the_command_through_its_terminal(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.start("--pty", "--", sys.executable, "-c", WAITS, str(tmp_path / "ready"))
    terminal.read(b"on")
    terminal.send(frame(INPUT, b"\x03"))
    assert b"caught" in terminal.read()
    assert terminal.code() == 3


def test_all_that_a_command_prints_arrives(terminal: Terminal) -> None:
    """More than all buffers hold: a slow terminal makes the command wait, and loses nothing."""
    terminal.start("--pty", "--", "sh", "-c", "stty -opost; head -c 1000000 /dev/zero; echo end")
    said = terminal.read()
    assert len(said) == 1_000_000 + len(b"end\n") and said.endswith(b"end\n")
    assert terminal.code() == 0


def test_a_command_without_a_terminal_is_interrupted(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start("--", sys.executable, "-c", WAITS, str(tmp_path / "ready"))
    wait_until((tmp_path / "ready").exists, "the command")
    terminal.send(frame(INTERRUPT))
    assert terminal.code() == 3


def test_a_death_by_a_signal_is_passed_on(terminal: Terminal) -> None:
    terminal.start("--", "sh", "-c", "kill -9 $$")
    assert terminal.code() == -signal.SIGKILL


def test_a_command_ends_with_its_connection(terminal: Terminal, tmp_path: Path) -> None:
    """The shell and what runs in its foreground get HUP."""
    terminal.start("--pty", "--", "bash", "--norc", "-i")
    job = f"sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 999'"
    terminal.send(frame(INPUT, f"{job}\r".encode()))
    pid = wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    terminal.hang_up()
    assert terminal.code() == sessions.EXIT_HUNG_UP
    wait_until(lambda: not lives(int(pid)), "the end of the shell's job")


def test_a_command_has_time_after_hup(terminal: Terminal, tmp_path: Path) -> None:
    """No TERM follows at once."""
    saves = f"trap 'sleep 0.2; touch {tmp_path}/saved; exit' HUP"
    terminal.start("--pty", "--", "sh", "-c", f"{saves}; echo on; while :; do sleep 0.05; done")
    terminal.read(b"on")
    terminal.hang_up()
    assert terminal.code() == sessions.EXIT_HUNG_UP
    assert (tmp_path / "saved").exists()


def test_a_command_without_a_terminal_gets_term(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start("--", "sh", "-c", f"trap 'touch {tmp_path}/saved; exit' TERM; sleep 999 & wait")
    wait_until(lambda: b"sleep" in _names(terminal), "its child")
    terminal.hang_up()
    assert terminal.code() == sessions.EXIT_HUNG_UP
    assert (tmp_path / "saved").exists()


def _names(terminal: Terminal) -> bytes:
    """The command lines of the command's children."""
    assert terminal.process is not None
    found = b""
    for child in _children(terminal.process.pid):
        for grandchild in _children(child):
            found += Path(f"/proc/{grandchild}/cmdline").read_bytes()
    return found


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_is_no_frame_ends_the_session(terminal: Terminal) -> None:
    terminal.start("--pty", "--", "sh", "-c", "echo on; sleep 999")
    terminal.read(b"on")
    terminal.send(b"\xff\xff\xff")
    assert terminal.code() == sessions.EXIT_HUNG_UP


def test_a_job_whose_terminal_is_gone_does_not_begin(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start("--", "touch", str(tmp_path / "begun"), size=None)
    terminal.hang_up()
    assert terminal.code() == sessions.EXIT_HUNG_UP
    assert not (tmp_path / "begun").exists()
    assert "no radrm run waits for this job: it has ended" in terminal.errors.read_text()


@pytest.mark.parametrize("path", ["/nowhere/socket", ""])
def test_nobody_listens(path: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", sessions.__file__, "--", "touch", str(tmp_path / "begun")],
        env={sessions.VARIABLE: path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == sessions.EXIT_HUNG_UP and not (tmp_path / "begun").exists()
    assert len(done.stderr.splitlines()) == 1 and "no radrm run waits" in done.stderr


def test_what_a_killed_client_has_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "radrm-run-1").mkdir()
    listen(tmp_path / "radrm-run-1" / "socket").close()
    done = subprocess.run(
        [sys.executable, "-I", "-S", sessions.__file__, "--", "true"],
        env={sessions.VARIABLE: str(tmp_path / "radrm-run-1" / "socket")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == sessions.EXIT_HUNG_UP and list(tmp_path.iterdir()) == []


def test_another_users_end_is_not_believed(tmp_path: Path) -> None:
    """The job is root's, and the socket another user's: the command does not begin."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    code = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
        "s.bind(sys.argv[1]); s.listen(); print(flush=True); c = s.accept()[0]; c.recv(1)"
    )
    path = Path("/tmp") / f"radrm-test-{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as listener:
        assert listener.stdout is not None
        try:
            listener.stdout.readline()
            done = subprocess.run(
                [sys.executable, "-I", "-S", sessions.__file__, "--", "touch", str(tmp_path / "x")],
                env={sessions.VARIABLE: str(path)},
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            listener.kill()
            path.unlink(missing_ok=True)
    assert done.returncode == sessions.EXIT_HUNG_UP and "user 65534 listens there" in done.stderr
    assert not (tmp_path / "x").exists()


# ------------------------------------------------------------------ standard input


def heard(terminal: Terminal) -> bytes:
    return terminal.link.recv(1)


def test_a_command_without_a_terminal_reads_what_is_sent(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.start("--", "sh", "-c", f"cat > {tmp_path}/read; exit 7")
    for piece in (b"one\n", b"x" * MOST):
        terminal.send(frame(INPUT, piece))
        assert heard(terminal) == TAKEN, "the next piece may come"
    terminal.send(frame(INPUT))
    assert terminal.code() == 7
    assert (tmp_path / "read").read_bytes() == b"one\n" + b"x" * MOST


def test_an_interrupt_does_not_wait_for_a_command_that_does_not_read(terminal: Terminal) -> None:
    terminal.start("--", "sleep", str(PATIENCE_S))
    for _ in range(4):  # a pipe holds 64 KiB
        terminal.send(frame(INPUT, b"x" * MOST))
        assert heard(terminal) == TAKEN
    terminal.send(frame(INPUT, b"x") + frame(INTERRUPT))
    assert terminal.code() == -signal.SIGINT


def test_a_command_that_closes_its_input_says_so_and_goes_on(terminal: Terminal) -> None:
    terminal.start("--", "sh", "-c", "exec <&-; sleep 0.1; exit 4")
    assert heard(terminal) == UNREAD
    terminal.send(frame(INPUT, b"late"))
    assert terminal.code() == 4
