"""Reports of jobs, through a real daemon."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

SENDER = """
import os, socket, sys, time
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.setblocking(False)
def send(text):
    try:
        sender.sendto(text.encode(), os.environ["RADRM_PROGRESS"])
    except OSError:
        return False
    return True
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""


@pytest.fixture
def home() -> Iterator[DaemonHome]:
    """A daemon in a folder with a short name, as a socket's path has to be short."""
    with tempfile.TemporaryDirectory(prefix="radrm-p-") as folder:
        found = DaemonHome(Path(folder), scale=20.0)
        try:
            yield found
        finally:
            found.close()


def submit(home: DaemonHome, name: str, program: str) -> int:
    home.file(name, SENDER + program)
    return home.submit("--gpu-memory=1G", "--", sys.executable, name)


def socket_of(home: DaemonHome, serial: int) -> Path:
    return home.folder / "home" / "run" / "progress" / str(serial) / "socket"


def shown(home: DaemonHome, job: int) -> dict[str, object]:
    found = home.job(job)["progress"]
    return found if isinstance(found, dict) else {}


def test_reports_are_shown_survive_a_kill_and_go_when_the_job_has_ended(home: DaemonHome) -> None:
    home.start()
    program = """
send("step=120\\ntotal=1000\\nloss=0.31")
wait("again")
while not os.path.exists("end"):
    send("step=500")
    time.sleep(0.05)
send("step=1000")
send("loss=nan")
"""
    fails = """
send("step=60\\ntotal=100\\nsaved=60")
wait("end")
send("step=95")
sys.exit(3)
"""
    job = submit(home, "train.py", program)
    wait_until(lambda: shown(home, job).get("step") == 120, "the first report")
    assert shown(home, job)["work_done"] == 0.12
    path = socket_of(home, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.stat().st_uid == os.getuid()
    failing = submit(home, "fails.py", fails)
    wait_until(lambda: home.job(failing)["saved_at"] is not None, "the checkpoint")
    home.kill()
    (path.parent.parent / "77").mkdir()
    home.start()
    assert not (path.parent.parent / "77").exists(), "of no live attempt"
    assert home.job(failing)["saved_at"] is not None, "what is saved is known after a kill"
    home.file("again", "")
    wait_until(lambda: shown(home, job).get("step") == 500, "a report to the next daemon")
    home.file("end", "")
    wait_until(lambda: home.job(failing)["state"] == "FAILED", "the end of the other")
    assert shown(home, failing)["work_done"] == 0.6
    wait_until(lambda: home.job(job)["state"] == "COMPLETED", "the end")
    ended = home.job(job)
    assert ended["progress"]["step"] == 1000, "the last report comes before the end"
    assert ended["reports_dropped"] == 1
    assert ended["reports_dropped_why"] == "loss=nan is not a finite number"
    assert "1 dropped" in home.radrm("status", str(job)).stdout
    wait_until(lambda: not path.parent.exists(), "the removal of the socket")


def test_a_flood_does_not_delay_the_reports_of_others(home: DaemonHome) -> None:
    home.start()
    flood = """
while True:
    for i in range(1000):
        send(f"step={i}\\ntotal=1000")
"""
    other = """
wait("on")
while not send("step=7\\ntotal=10"):
    pass
wait("never")
"""
    first, second = submit(home, "flood.py", flood), submit(home, "other.py", other)
    wait_until(lambda: shown(home, first) and home.job(second)["state"] == "RUNNING", "both")
    home.file("on", "")
    wait_until(lambda: shown(home, second).get("step") == 7, "the other's report")
    assert home.job(first)["state"] == "RUNNING"


def test_a_job_in_a_folder_with_a_long_name_runs_without_a_socket() -> None:
    with tempfile.TemporaryDirectory(prefix="radrm-p-") as folder:
        long = Path(folder) / ("x" * 100)
        home = DaemonHome(long)
        try:
            home.start()
            job = home.submit("--", "sh", "-c", 'test -z "$RADRM_PROGRESS"')
            wait_until(lambda: home.job(job)["state"] == "COMPLETED", "the end")
            assert "cannot report its progress" in home.said()
        finally:
            home.close()
