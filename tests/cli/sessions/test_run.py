"""`radrm run`, `logs -f` and `submit --wait` against a real daemon: what people see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest

from radrm.jobfile.command_line import parse_run
from tests.cli.going_on import RADRM, started
from tests.daemon.harness import DaemonHome
from tests.waiting import PATIENCE_S

TWO_ATTEMPTS = "echo attempt $RADRM_ATTEMPT; echo oops >&2; test $RADRM_ATTEMPT = 2"


class AtTerminal:
    """A command whose standard input, output and error are a terminal."""

    def __init__(self, home: DaemonHome, *words: str) -> None:
        self.screen, its = pty.openpty()
        self.seen = b""
        self.process = subprocess.Popen(
            [*RADRM, *words],
            env=home.environment,
            cwd=home.work,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the screen has shown this, after what was waited for before."""
        until = time.monotonic() + PATIENCE_S
        while text.encode() not in self.seen:
            ready = select.select([self.screen], [], [], until - time.monotonic())[0]
            assert ready, f"{text!r} is not in {self.seen!r}"
            self.seen += os.read(self.screen, 65536)
        self.seen = self.seen.partition(text.encode())[2]

    def resize(self, rows: int, columns: int) -> None:
        """As the window's program does. (The terminal controls no session, so the signal that
        the kernel would send is sent here.)"""
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.screen)

    def code(self) -> int:
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def at_terminal(home: DaemonHome, *words: str) -> Iterator[AtTerminal]:
    found = AtTerminal(home, *words)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        os.close(found.screen)


pytestmark = pytest.mark.daemon


def test_one_job_is_waited_for_with_its_output(shared_daemon: DaemonHome) -> None:
    """Through its second attempt, both streams in order; then its log ends with its code."""
    words = ("--name=twice", "--retries=1", "--", "sh", "-c", TWO_ATTEMPTS)
    done = shared_daemon.radrm("submit", "--wait", *words)
    assert (done.returncode, done.stdout) == (0, "attempt 1\noops\nattempt 2\noops\n")
    assert "radrm: attempt 2:\n" in done.stderr
    assert done.stderr.startswith("Submitted job ")
    done = shared_daemon.radrm("logs", "twice", "-f")
    assert (done.returncode, done.stdout) == (0, "attempt 2\noops\n")


def test_leaving_a_stream_leaves_the_job(shared_daemon: DaemonHome) -> None:
    with started(shared_daemon, "submit", "--wait", "--name=left", "--", *forever()) as waiting:
        assert waiting.stdout.readline() == "begun\n"
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=PATIENCE_S)
        assert waiting.returncode == 130 and "the job goes on" in said
    with started(shared_daemon, "logs", "-f", "left") as attached:
        assert attached.stdout.readline() == "begun\n"
        assert shared_daemon.radrm("cancel", "left").returncode == 0
        assert attached.wait(PATIENCE_S) == 143


def forever() -> list[str]:
    return ["sh", "-c", "echo begun; sleep 9999"]


def test_a_command_is_run_with_its_output_and_code(shared_daemon: DaemonHome) -> None:
    done = shared_daemon.radrm("run", "--name=ran", "sh", "-c", "echo out; echo err >&2; exit 4")
    assert (done.returncode, done.stdout) == (4, "out\n")
    assert "err\n" in done.stderr and "FAILED: exit code 4" in done.stderr


def test_a_command_reads_standard_input(shared_daemon: DaemonHome) -> None:
    def ran(text: str, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [*RADRM, "run", "--gpus=0", *words],
            env=shared_daemon.environment,
            cwd=shared_daemon.work,
            input=text,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout

    program = "import sys; print(sys.argv[1:], sys.stdin.read())"
    assert ran(program, "--", sys.executable, "-", "a") == (0, "['a'] \n")
    text = "".join(f"{n}\n" for n in range(40_000))  # more than a pipe holds
    assert ran(text, "--", "tail", "-1") == (0, "39999\n")
    assert ran(text, "--", "sh", "-c", "exit 5") == (5, ""), "it need not read"


def test_ctrl_c_interrupts_the_job_and_the_second_cancels_it(shared_daemon: DaemonHome) -> None:
    deaf = "import signal,time; signal.signal(2, lambda *_: print('INT', flush=True));"
    program = f"{deaf} print('begun', flush=True); time.sleep(9999)"
    with started(shared_daemon, "run", "--name=deaf", "--", sys.executable, "-c", program) as ran:
        assert ran.stdout.readline() == "begun\n"
        ran.send_signal(signal.SIGINT)
        assert ran.stdout.readline() == "INT\n"
        ran.send_signal(signal.SIGINT)
        assert ran.wait(PATIENCE_S) == 143
    assert shared_daemon.job("deaf")["state"] == "CANCELLED"


def test_a_shell_on_a_gpu(shared_daemon: DaemonHome) -> None:
    words = ("run", "--name=shell", "--pty", "--", "sh")
    with at_terminal(shared_daemon, *words) as terminal:
        before = terminal.modes()
        terminal.type("echo GPU=$CUDA_VISIBLE_DEVICES; tty\r")
        terminal.wait_for("GPU=GPU-")
        terminal.wait_for("/dev/pts/")
        job = shared_daemon.job("shell")
        assert job["state"] == "RUNNING"
        refused = shared_daemon.radrm("logs", "-f", "shell")
        assert refused.returncode == 1 and "keeps no log" in refused.stderr
        terminal.resize(33, 111)
        terminal.type("stty size\r")
        terminal.wait_for("33 111")
        terminal.type("exit 7\r")
        assert terminal.code() == 7
        assert terminal.modes() == before, "the terminal is as it was"
    assert shared_daemon.job("shell")["exit_code"] == 7


def test_a_session_ends_with_its_terminal(shared_daemon: DaemonHome) -> None:
    """Also when radrm itself has no time to say anything."""
    with at_terminal(shared_daemon, "run", "--name=lost", "--pty", "--", "sh") as terminal:
        terminal.type("echo be''gun\r")
        terminal.wait_for("begun")
        terminal.process.kill()
    end = shared_daemon.wait_end("lost")
    assert (end["state"], end["exit_code"]) == ("FAILED", 129)


def test_a_session_that_waits_is_cancelled_by_ctrl_c(shared_daemon: DaemonHome) -> None:
    with at_terminal(shared_daemon, "run", "--name=held", "--hold", "--pty", "sh") as terminal:
        terminal.wait_for("is PENDING")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.code() == 130
    assert shared_daemon.wait_end("held")["state"] == "CANCELLED"


def test_a_terminal_must_be_there(shared_daemon: DaemonHome) -> None:
    done = shared_daemon.radrm("run", "--pty", "--", "sh")
    assert done.returncode == 2 and "--pty needs a terminal" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["-g1", "--pty", "bash", "-g2"], ["--gpus", "1", "--pty", "--", "bash", "-g2"]],
)
def test_the_command_begins_at_the_first_word_that_is_no_option(words: list[str]) -> None:
    found = parse_run(words)
    assert found.pty and found.raw_options == {"gpus": "1"} and found.command == ("bash", "-g2")
