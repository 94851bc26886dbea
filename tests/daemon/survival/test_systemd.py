"""A daemon as a service of systemd: it hears READY after the adoption, then a sign of life."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from radrm.host.notify import VARIABLES
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

ADOPTED = "re-adopted job"


class Systemd:
    """Reads the messages of a daemon as they come. A stand-in of PID 1."""

    def __init__(self, home: DaemonHome, path: Path) -> None:
        self.heard: list[str] = []
        self.adopted_before_ready = False
        self._home = home
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(os.fspath(path))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while text := self._socket.recv(4096).decode():
            if "READY=1" in text:
                self.adopted_before_ready = ADOPTED in self._home.said()
            self.heard += text.split("\n")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@pytest.fixture
def systemd(home: DaemonHome, tmp_path: Path) -> Iterator[Systemd]:
    path = tmp_path / "notify"
    with closing(Systemd(home, path)) as found:
        # No WATCHDOG_PID: the daemon's pid is not known before it starts.
        home.environment |= {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "600000"}
        yield found


@pytest.mark.daemon
def test_the_life_of_a_service(home: DaemonHome, systemd: Systemd) -> None:
    home.start()
    # Submitted by a service of its own, whose variables are no business of the job.
    job = home.submit("--gpus=0", "--", "sh", "-c", "env > variables; exec sleep 1000")
    home.wait_state(job, "RUNNING")
    wait_until(lambda: (home.work / "variables").exists(), "the job to write its variables")
    home.kill()
    del systemd.heard[:]
    home.start()
    wait_until(lambda: systemd.heard.count("WATCHDOG=1") > 3, "signs of life")
    wait_until(lambda: "STATUS=jobs: 1 running, 0 waiting" in systemd.heard, "its figures")
    heard = list(systemd.heard)
    phases = ["STATUS=opens the store", "STATUS=re-adopts running jobs: 1", "READY=1", "WATCHDOG=1"]
    assert sorted(phases, key=heard.index) == phases
    assert systemd.adopted_before_ready
    assert heard.index("EXTEND_TIMEOUT_USEC=300000000") < heard.index("READY=1")
    assert home.stop() == 0
    wait_until(lambda: "STOPPING=1" in systemd.heard, "the last message")
    assert systemd.heard[-2:] == ["STOPPING=1", "STATUS=ends; running jobs run on"]
    names = {line.partition("=")[0] for line in (home.work / "variables").read_text().splitlines()}
    assert "RADRM_JOB_ID" in names
    assert not names & set(VARIABLES)
