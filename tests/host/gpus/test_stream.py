"""A child that is kept alive: started, heard, given up, started again, ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import DeviceError
from radrm.host.gpus import stream as streams
from radrm.host.gpus.stream import (
    LONGEST_LINE,
    LONGEST_WORDS,
    Backoff,
    LineKind,
    Stream,
    ask,
    shown,
)
from tests.waiting import wait_until

Make = Callable[..., Stream]


class Listener:
    """Takes lines: those that begin with `data` are measurements."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def take(self, line: str) -> LineKind:
        self.lines.append(line)
        return LineKind.DATA if line.startswith("data") else LineKind.MESSAGE


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def make(listener: Listener) -> Iterator[Make]:
    """Streams of Python scripts, ended with the test."""
    made: list[Stream] = []

    def start(*scripts: str, silent_s: float = 15.0) -> Stream:
        """The first child runs the first script, and so on; the last one goes on for ever.

        Python, or the shell where it begins with `sh: `, which starts quicker.
        """
        runs = iter([*scripts[:-1]])

        def prepare() -> list[str]:
            script = next(runs, scripts[-1])
            if script.startswith("!"):
                raise DeviceError(script[1:])
            if script.startswith("sh: "):
                return ["sh", "-c", script[4:]]
            return [sys.executable, "-uc", script]

        backoff = Backoff(first_s=0.01, longest_s=0.05)
        made.append(Stream("fake", prepare, listener.take, silent_s=silent_s, backoff=backoff))
        made[-1].start()
        return made[-1]

    yield start
    for stream in made:
        stream.close()


LIVES = "import time; print('data'); time.sleep(600)"


def gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def test_pauses_double_up_to_a_limit_and_begin_anew_after_a_long_life() -> None:
    backoff = Backoff(first_s=1.0, longest_s=60.0)
    assert [backoff.pause_after(0.1) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [backoff.pause_after(lasted) for lasted in (60.0, 5.0)] == [1, 2]


def test_lines_come_whole_and_without_blanks(make: Make, listener: Listener) -> None:
    make("import time; print('data 1\\n\\n  da', end=''); print('ta 2'); time.sleep(600)")
    wait_until(lambda: len(listener.lines) >= 2)
    assert listener.lines == ["data 1", "data 2"]


def test_what_ends_is_started_again_and_says_why_meanwhile(
    make: Make, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "radrm")
    stream = make("print('no host engine'); exit(3)", "print('no host engine'); exit(3)", LIVES)
    wait_until(lambda: "data" in listener.lines and stream.error is None)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["fake has ended: no host engine", "fake gives readings again"]


@pytest.mark.parametrize(
    "script, words",
    [
        ("exit(3)", "fake has ended: exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "fake has ended: signal 9"),
        ("print('\\x1b[31mbad')", "�[31mbad"),
        ("!it is not installed", "it is not installed"),
    ],
)
def test_why_it_has_ended(make: Make, script: str, words: str) -> None:
    stream = make(script)
    assert words in str(wait_until(lambda: stream.error))


def test_a_silent_child_is_ended_and_started_again(make: Make, listener: Listener) -> None:
    stream = make("sh: echo pid $$; exec sleep 600", "sh: echo data; sleep 600", silent_s=0.5)
    wait_until(lambda: "data" in listener.lines)
    # A shell of a busy machine may be ended before it says its number.
    assert all(gone(int(line.split()[1])) for line in listener.lines if line.startswith("pid"))
    assert stream.error is None or "gave no reading" in stream.error


def test_one_that_prints_only_what_nobody_understands_is_silent(make: Make) -> None:
    stream = make("sh: while :; do echo noise; sleep 0.01; done", silent_s=0.5)
    wait_until(lambda: "it printed: noise" in str(stream.error), "its noise to be told")


def test_a_line_without_end_is_dropped(make: Make, listener: Listener) -> None:
    endless = f"import time; print('x' * {3 * LONGEST_LINE}); print('data'); time.sleep(600)"
    make(endless)
    wait_until(lambda: "data" in listener.lines)
    assert all(len(line) <= LONGEST_LINE for line in listener.lines)


def test_renewing_ends_the_child_and_asks_anew(make: Make, listener: Listener) -> None:
    said = "import os, time; print('data', os.getpid()); time.sleep(600)"
    stream = make(said)
    wait_until(lambda: listener.lines)
    stream.renew()
    wait_until(lambda: len(listener.lines) == 2)
    first, second = (int(line.split()[1]) for line in listener.lines)
    assert first != second and gone(first) and not gone(second)
    stream.close()
    assert gone(second)
    stream.close()


def test_the_whole_session_of_a_child_is_ended(
    make: Make, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrapper script leaves nothing behind, and neither does one that ignores TERM."""
    script = (
        "import signal, subprocess, time; signal.signal(15, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "print('data', child.pid); time.sleep(600)"
    )
    monkeypatch.setattr(streams, "END_LIMIT_S", 0.2)
    stream = make(script)
    wait_until(lambda: listener.lines)
    stream.close()
    pid = int(listener.lines[0].split()[1])
    wait_until(lambda: gone(pid) or "Z" in Path(f"/proc/{pid}/stat").read_text().split())


def test_one_that_was_never_started_can_be_closed(listener: Listener) -> None:
    Stream("fake", list, listener.take).close()


@pytest.mark.parametrize(
    "command, words",
    [
        (["/nowhere/dcgmi"], "dcgmi is not installed"),
        ([sys.executable, "-c", "print('Error: no'); exit(1)"], "does not work here: Error: no"),
        ([sys.executable, "-c", "exit(9)"], "exit code 9"),
        ([sys.executable, "-c", "import time; time.sleep(600)"], "within 0.2 s"),
        ([sys.executable, "-c", "while True: print('x' * 65536)"], "prints more than 16 MiB"),
        (["/"], "cannot be run"),
    ],
)
def test_a_question_that_fails(command: list[str], words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        ask(command, limit_s=0.2 if "sleep" in command[-1] else 30.0)


@given(st.text())
def test_what_is_shown_is_short_and_harmless(text: str) -> None:
    assert len(shown(text)) <= LONGEST_WORDS
    assert shown(text).isprintable()
