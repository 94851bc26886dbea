"""The signal that asks a job to save: who gets it."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from radrm.host.attempts.live import Asker
from radrm.host.processes.procfs import Stat, read_stat
from radrm.host.processes.stop import signal_topmost

TRAINER = """
import os, signal, sys
def save(number, frame):
    os.write(1, b"saved by %d\\n" % (os.getpid() == first))
signal.signal(signal.SIGUSR1, save)
first = os.getpid()
if os.fork() == 0:
    os.write(1, b"ready\\n")
    while True:
        signal.pause()
while True:
    signal.pause()
"""


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[bytes]]:
    """A shell, the trainer below it, and a loader that has inherited the trainer's handler."""
    command = ["/bin/sh", "-c", '"$0" -c "$1"; true', sys.executable, TRAINER]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    yield process
    for pid in members(process.pid):
        subprocess.run(["/bin/kill", "-9", str(pid)], check=False)
    process.wait()
    process.stdout.close()


def members(shell: int) -> dict[int, Stat]:
    """A shell and all that is below it."""
    found = {shell}
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    for _ in range(3):
        found |= {pid for pid, parent in pairs if parent in found}
    stats = {pid: read_stat(pid) for pid in found}
    return {pid: stat for pid, stat in stats.items() if stat is not None and not stat.dead}


def test_the_trainer_is_asked_and_not_its_loader(trainer: subprocess.Popen[bytes]) -> None:
    assert signal_topmost(members(trainer.pid), signal.SIGUSR1) == 1
    assert trainer.stdout.readline() == b"saved by 1\n"


def test_nobody_is_asked_who_does_not_handle_it(trainer: subprocess.Popen[bytes]) -> None:
    assert signal_topmost(members(trainer.pid), signal.SIGUSR2) == 0
    assert signal_topmost({}, signal.SIGUSR1) == 0
    assert trainer.poll() is None


def test_a_failed_request_says_why(trainer: subprocess.Popen[bytes]) -> None:
    said: queue.Queue[str] = queue.Queue()
    asker = Asker()
    asker.ask(lambda: members(trainer.pid), signal.SIGUSR2, said.put)
    assert said.get(timeout=60) == "none of its processes handles USR2"
    asker.ask(dict, signal.SIGUSR1, said.put)
    assert said.get(timeout=60) == "it has just ended"
    looks = iter([members(trainer.pid), {}])
    asker.ask(lambda: next(looks), signal.SIGUSR2, said.put)
    assert said.get(timeout=60) == "it has just ended", "while it was asked"

    def broken() -> dict[int, Stat]:
        raise OSError("no such thing")

    asker.ask(broken, signal.SIGUSR1, said.put)
    assert "no such thing" in said.get(timeout=60)
