"""The daemon of the soak, its simulated driver, and the processes of both."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

from proofs.processes import Process, descendants
from proofs.server import driver
from proofs.soak.ground import Ground
from proofs.soak.jobs import SCALE
from radrm.client.connection import Client
from radrm.errors import DeviceError, RadrmError, Unreachable
from radrm.host.simulated.client import DriverClient
from tests.waiting import wait_until

_END_S = 60.0
GPUS = "sim:2xA100-40GB"
KEPT = 100
"""Ended jobs of each user that the store keeps: few, so that it is soon as large as it gets."""
SETTINGS = (
    "limits.priority_max=1000",  # for the probes
    "core.gpuless_at_once=16",
    f"retention.finished_jobs={KEPT}",
    "retention.refused_mib=16",
)


def is_runner(each: Process) -> bool:
    words = each.words
    return any(w.endswith("attempts/runner.py") or w.startswith("radrm-runner ") for w in words)


def is_forker(each: Process) -> bool:
    return any(word.startswith("radrm-forker ") for word in each.words)


def is_driver(each: Process) -> bool:
    return "radrm.host.simulated.driver" in each.words


def is_worker(each: Process) -> bool:
    """True for a process for estimators and other rules."""
    return any(word.startswith("radrm.host.") for word in each.words) and not is_driver(each)


class Daemon:
    """One daemon after another, in one home. Used by one thread."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.log = ground.folder / "daemon.log"
        self.lives = 0
        self.silent = False
        """It answers nobody now, by the soak's own doing: it is frozen, or has just been started.
        To ask it would keep the soak waiting."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a daemon and wait until it answers."""
        self.begin()
        wait_until(
            lambda: self.answers() or self.ended is not None,
            f"the daemon to answer; see {self.log}",
        )
        assert self.ended is None, self.said()

    def begin(self) -> None:
        """Start a daemon. It is silent until `answers` finds that it is not."""
        command = [sys.executable, "-m", "tests.unfixed", "daemon", "--gpus", GPUS]
        command += ["--time-scale", str(SCALE)]
        for setting in SETTINGS:
            command += ["--set", setting]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self.ground.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, cwd="/",
            )  # fmt: skip
        self.lives += 1
        self.silent = True

    def answers(self) -> bool:
        """True once it answers."""
        try:
            self.ask("ping")
        except RadrmError:
            return False
        self.silent = False
        return True

    def freeze(self) -> None:
        self.silent = True
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)
        self.silent = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """How it has ended, as `subprocess` tells it; None while it runs."""
        return self._process.poll()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self, number: int = signal.SIGKILL) -> None:
        """Send a signal that ends it, and reap it. One that does not end in time is killed: then
        `ended` is not what it should be."""
        assert self._process is not None
        self.send(number)
        self.send(signal.SIGCONT)  # a frozen one gets no other signal
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self._process.wait()

    def ask(self, op: str, **words: Any) -> Any:
        with Client((self.ground.paths,)) as client:
            return client.ask(op, **words)

    def driver(self) -> contextlib.AbstractContextManager[DriverClient]:
        return driver(self.ground.paths)

    def used_mib(self) -> dict[str, int]:
        """The memory in use of each simulated GPU, by UUID. Raises `RadrmError`."""
        with self.driver() as client:
            uuids = [device["uuid"] for device in client.ask("devices")["devices"]]
            readings = client.ask("read", uuids=uuids)["readings"]
        return {reading["uuid"]: reading["used_mib"] for reading in readings}

    def quit_driver(self) -> None:
        with contextlib.suppress(DeviceError, Unreachable), self.driver() as client:
            client.ask("quit")

    def runners(self) -> list[Process]:
        """The runners. What a runner forks has its words until it executes: that is the job."""
        found = {each.pid: each for each in descendants(os.getppid()) if is_runner(each)}
        return [each for each in found.values() if each.parent not in found]

    def said(self) -> str:
        return self.log.read_text(errors="replace")
