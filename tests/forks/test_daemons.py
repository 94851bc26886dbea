"""A forked daemon is as a started one: the kernel sees no difference but the command line."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.forks import daemons
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

STATUS = ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs")


def seen(pid: int, folder: Path) -> dict[str, object]:
    """What the kernel knows of a process that serves `folder`."""
    place = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    files = [os.readlink(file).replace(str(folder), "") for file in (place / "fd").iterdir()]
    return {
        "cwd": os.readlink(place / "cwd"),
        "exe": os.readlink(place / "exe"),
        "first": [os.readlink(place / f"fd/{n}").replace(str(folder), "") for n in range(3)],
        # Connections and pipes come and go.
        "files": sorted({file for file in files if file.startswith("/")}),
        "limits": (place / "limits").read_text(),
        **{name: status[name] for name in STATUS},
    }


@pytest.mark.nightly
def test_the_kernel_sees_no_difference(tmp_path: Path) -> None:
    found = []
    for name, forked in (("started", False), ("forked", True)):
        home = DaemonHome(tmp_path / name)
        home.forked = forked
        home.start()
        try:
            assert home.process is not None
            assert isinstance(home.process, daemons.Fork) == forked
            driver = home.driver()
            pid = driver.hello().pid
            driver.close()
            of_daemon, of_driver = seen(home.process.pid, home.folder), seen(pid, home.folder)
            found.append((of_daemon, of_driver, os.getsid(pid) == pid))
            assert home.stop(signal.SIGINT) == 0
            home.start()
            home.kill()
            assert home.process.returncode == -signal.SIGKILL
        finally:
            home.close()
    for started, forked in zip(*found, strict=True):
        assert started == forked


def test_variables_of_the_interpreter_ask_for_one_of_their_own(tmp_path: Path) -> None:
    home = DaemonHome(tmp_path)
    home.environment["PYTHONPATH"] += f":{tmp_path}"
    assert daemons.start(["--version"], home.environment, home.log) is None


def test_output_and_exit_code_are_the_command_s(tmp_path: Path) -> None:
    home = DaemonHome(tmp_path)
    fork = daemons.start(["daemon", "--gpus=none"], home.environment, home.log)
    assert fork.wait(60) == 2
    assert home.said().startswith("radrm: ") and home.said().count("\n") == 1
    assert wait_until(lambda: not Path(f"/proc/{fork.pid}").exists(), "its end to be collected")
