"""The tour for a new user: it succeeds, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


def start_demo(folder: Path) -> subprocess.Popen[str]:
    """Its output goes to `out` and `err` in the folder; whatever it makes, to `made`."""
    (folder / "made").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "radrm.cli.main", "demo"],
        env={**os.environ, "TMPDIR": str(folder / "made"), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=(folder / "out").open("w"),
        stderr=(folder / "err").open("w"),
        text=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Files of the demo, and processes that were started with any of them."""
    found = os.listdir(folder / "made")
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder / "made") in word for word in words):
            found.append(str(process))
    return found


@pytest.mark.nightly
def test_the_demo_succeeds_and_leaves_nothing_behind(tmp_path: Path) -> None:
    code = start_demo(tmp_path).wait()
    out = (tmp_path / "out").read_text()
    assert code == 0, out + (tmp_path / "err").read_text()
    assert "RECOVERING" in out
    assert "it ran out of GPU memory, went to the front of the queue" in out
    assert "jobs finished                     12 of 12" in out
    assert "deaths by GPU out-of-memory              1           0" in out
    assert "Sharing ended the same jobs" in out
    assert " explain @" in out
    assert left_behind(tmp_path) == []


def test_a_demo_interrupted_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    """While its jobs run, see `test_bench.test_ctrl_c_leaves_nothing_behind`: the same server."""
    demo = start_demo(tmp_path)
    try:
        wait_until(lambda: list(tmp_path.glob("made/*/sharing/daemon.log")), "a daemon's log")
        demo.send_signal(signal.SIGINT)
        assert demo.wait() == 128 + signal.SIGINT
    finally:
        demo.kill()
    assert "stopped; the demo ends its jobs and daemons" in (tmp_path / "err").read_text()
    assert left_behind(tmp_path) == []
