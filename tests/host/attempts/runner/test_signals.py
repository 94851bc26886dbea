"""Signals to the runner: which processes they reach, and when."""

from __future__ import annotations

import signal
import subprocess

import pytest

from radrm.host.processes.tree import attempt_processes
from tests.host.attempts.runner.attempt import Attempt
from tests.host.processes.programs import PYTHON

TREE = (
    "import os, signal, sys, time\n"
    "if os.fork() == 0: os.setsid(); open('child', 'w').close()\n"
    "else: open('parent', 'w').close()\n"
    "while True: time.sleep(1000)"
)


def started_tree(attempt: Attempt, before: str = "") -> subprocess.Popen[bytes]:
    process = attempt.start(argv=[*PYTHON, before + TREE])
    attempt.wait_for("parent")
    attempt.wait_for("child")
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_term_goes_to_the_whole_tree(attempt: Attempt, number: int) -> None:
    note = (
        "import signal, os\n"
        "note = lambda *_: (open(f'term-{os.getpid()}', 'w'), os._exit(4))\n"
        "signal.signal(15, note)\n"
    )
    process = started_tree(attempt, note)
    process.send_signal(number)
    assert process.wait() == 0
    assert attempt.record("exit.json")["code"] == 4
    assert len(list(attempt.cwd.glob("term-*"))) == 2


def test_usr2_ends_the_grace(attempt: Attempt) -> None:
    process = attempt.start(
        # The main process ends once the leftover ignores TERM; that is ready once it has been
        # reaped, so that only the leftover is signalled.
        argv=[
            "sh",
            "-c",
            "(trap '' TERM; echo >deaf; while kill -0 $$; do sleep 0.01; done; echo >ready;"
            " exec sleep 999) & until test -e deaf; do sleep 0.01; done",
        ],
        kill_grace_s=1000.0,
    )
    attempt.wait_for("ready")
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=60) == 0
    assert attempt.record("exit.json")["code"] == 0


def test_leftovers_that_ignore_term_are_killed_after_their_grace(attempt: Attempt) -> None:
    leftover = "(trap '' TERM; echo >deaf; exec sleep 999) & until test -e deaf; do :; done"
    attempt.start(argv=["sh", "-c", leftover], kill_grace_s=0.2)
    assert attempt.process.wait(timeout=60) == 0
    assert attempt.record("exit.json")["code"] == 0
    assert not attempt_processes(attempt.token, None)


def test_other_signals_do_not_matter(attempt: Attempt) -> None:
    process = started_tree(attempt)
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGALRM, signal.SIGPIPE):
        process.send_signal(number)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert attempt.record("exit.json")["signal"] == signal.SIGTERM
