"""A stopped job can save: real trainers, loaders and shells, and the order in which they end.

What happens is written into one file, in its order. Whoever waits there waits for an end of a
process or for a file, not for a time.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.host.attempts.runner.attempt import Attempt
from tests.host.processes.programs import PYTHON, TRAINER
from tests.waiting import wait_until


@pytest.fixture
def trainer(attempt: Attempt) -> str:
    """The command of the trainer, for a shell."""
    (attempt.cwd / "trainer.py").write_text(TRAINER)
    return f"{' '.join(PYTHON[:-1])} trainer.py"


def notes(attempt: Attempt) -> list[str]:
    path = attempt.cwd / "notes"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def ready(attempt: Attempt, processes: int = 3) -> list[int]:
    """Wait for so many processes; their pids."""

    def found() -> list[Path] | None:
        seen = list(attempt.cwd.glob("ready-*"))
        return seen if len(seen) == processes else None

    return sorted(int(path.name.partition("-")[2]) for path in wait_until(found))


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


GRACE = {"grace_s": 1000.0, "kill_grace_s": 0.2}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_waits_for_its_trainer_and_does_not_go_on(
    attempt: Attempt, trainer: str, shell: str
) -> None:
    """It stands still: else its next command would begin before TERM reaches it."""
    script = f"#!/usr/bin/env {shell}\n{trainer}\necho next >>notes\n"
    process = attempt.start(script=script, **GRACE)
    ready(attempt)
    stop(process)
    assert notes(attempt)[:2] == ["save with 2", "saved"]
    assert "next" not in notes(attempt)
    assert attempt.record("exit.json")["signal"] == signal.SIGTERM


def test_a_shell_that_ends_first_takes_no_time_from_its_trainer(
    attempt: Attempt, trainer: str
) -> None:
    """A shell with an exit trap ends at once: its trainer has all the grace time all the same."""
    (attempt.cwd / "slow").touch()
    script = f"#!/bin/bash\ntrap 'echo trap >>notes' EXIT\n{trainer} &\nwait\n"
    process = attempt.start(script=script, **GRACE)
    ready(attempt)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: {"trap", "save with 2"} <= set(notes(attempt)))
    (attempt.cwd / "saved").touch()
    assert process.wait(timeout=60) == 0
    assert "saved" in notes(attempt)


def test_a_trainer_that_a_wrapper_leaves_behind_is_asked_next(
    attempt: Attempt, trainer: str
) -> None:
    """The trainer is an orphan then: the runner has become its parent."""
    wrapper = (
        "import os, signal, subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], start_new_session=True)\n"
        "signal.signal(15, lambda *_: (open('notes', 'a').write('wrapper\\n'), os._exit(0)))\n"
        "open(f'ready-{os.getpid()}', 'w').close()\n"
        "child.wait()"
    )
    process = attempt.start(argv=[*PYTHON, wrapper, *trainer.split()], **GRACE)
    ready(attempt, 4)
    stop(process)
    assert notes(attempt)[:3] == ["wrapper", "save with 2", "saved"]


def test_what_stands_still_gets_it_too(attempt: Attempt, trainer: str) -> None:
    process = attempt.start(argv=trainer.split(), **GRACE)
    for pid in ready(attempt):
        os.kill(pid, signal.SIGSTOP)
    stop(process)
    assert notes(attempt)[:2] == ["save with 2", "saved"]


def test_nobody_is_asked_twice(attempt: Attempt, trainer: str) -> None:
    """A second TERM could break off what the first one has begun."""
    (attempt.cwd / "slow").touch()
    process = attempt.start(argv=trainer.split(), **GRACE)
    ready(attempt)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: "save with 2" in notes(attempt))
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    # Obeyed after these two, in the order of the numbers or later: the runner has seen both.
    wait_until(lambda: _pending(process.pid) == 0)
    (attempt.cwd / "saved").touch()
    assert process.wait(timeout=60) == 0
    assert notes(attempt).count("save with 2") == 1


def _pending(pid: int) -> int:
    """The signals that wait for a process, but SIGCHLD."""
    fields = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(fields["ShdPnd"], 16) & ~(1 << (signal.SIGCHLD - 1))


def test_kill_ends_those_that_stand_still(attempt: Attempt, trainer: str) -> None:
    (attempt.cwd / "slow").touch()
    process = attempt.start(script=f"#!/bin/sh\n{trainer}\necho next >>notes\n", **GRACE)
    ready(attempt)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: "save with 2" in notes(attempt))
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=60) == 0
    assert attempt.record("exit.json")["signal"] == signal.SIGKILL
    assert notes(attempt) == ["save with 2"]
