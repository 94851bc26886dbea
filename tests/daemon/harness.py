"""A real daemon on simulated GPUs, in a folder of its own, for tests.

It is started and killed as a process; commands are run as a user would. Whatever
a test leaves running is ended by its pid. Nothing here sleeps to wait: a condition
is polled until a deadline that only a broken daemon reaches.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from radrm.client.connection import Client, every_job
from radrm.errors import DeviceError, Refused, Unreachable
from radrm.host.simulated.client import DriverClient
from radrm.host.simulated.start_driver import SOCKET_NAME
from radrm.host.storage.paths import paths_for
from tests.documents import errors_of, whole
from tests.forks import daemons as forks
from tests.forks.daemons import Fork
from tests.packages import install
from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S, wait_until

UNREAD = "it has not been read yet"


class DaemonHome:
    """One RADRM_HOME, the daemon that serves it now, and commands that talk to it."""

    forked = False
    """Whether daemons and commands start as forks of a process that has imported them."""

    scripts = False
    """Whether commands are traced: most tests' commands are not worth seconds each."""

    def __init__(
        self, folder: Path, gpus: str | None = "sim:2xA100-40GB", scale: float = 100.0
    ) -> None:
        self.folder = folder
        self.gpus = gpus
        self.scale = scale
        self.settings: list[str] = []
        self.fixed: list[str] = []
        """Values that are no settings (`tests/unfixed.py`)."""
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("RADRM_")},
            "RADRM_HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
        }
        self.process: subprocess.Popen[bytes] | Fork | None = None
        self.served = False
        self.log = folder / "daemon.log"

    # ------------------------------------------------------------- the daemon

    def start(self) -> None:
        """Start the daemon, and wait until it answers and has read its GPUs, or failed to."""
        words = ["daemon"]
        if self.gpus is not None:
            words += ["--gpus", self.gpus, "--time-scale", str(self.scale)]
        own = () if self.scripts else ("estimation.script=false",)
        for setting in (*own, *self.settings, *self.fixed):
            words += ["--set", setting]
        self.process = None
        if self.forked:
            self.process = forks.start(words, self.environment, self.log, bool(self.fixed))
        if self.process is None:
            module = "tests.unfixed" if self.fixed else "radrm.cli.main"
            command = [sys.executable, "-m", module, *words]
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        wait_until(self.answers, f"the daemon; it said:\n{self.said()}")
        self.served = True
        wait_until(self._has_read, "the first readings")

    def answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended at once; it said:\n{self.said()}")
        try:
            self.ask("ping")
        except Unreachable:
            return False
        return True

    def _has_read(self) -> bool:
        return all(gpu["reason"] != UNREAD for gpu in self.ask("gpus"))

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """kill -9, and reap."""
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def ask(self, op: str, **words: Any) -> Any:
        with Client((paths_for(self.environment, os.getuid()),)) as client:
            return client.ask(op, **words)

    def driver(self) -> DriverClient:
        return DriverClient(self.folder / "home" / "run" / SOCKET_NAME)

    def close(self) -> None:
        """End what is left: jobs, daemon, driver."""
        if self.process is None or not self.served:
            return
        if self.process.poll() is not None:
            self.start()
        self.clear()
        self.stop()
        if self.gpus is not None:
            try:
                driver = self.driver()
                driver.ask("quit")
                driver.close()
            except (DeviceError, Unreachable):
                pass

    def clear(self) -> None:
        """Cancel all jobs, and wait for their end."""
        users = {job["user"] for job in every_job(self.ask)}
        for user in users:
            self.ask("cancel", user=user)
        if users:
            wait_until(lambda: not self.ask("page", limit=1)["total"], "the jobs' end")

    def install(self, points: Mapping[str, Mapping[str, str]], **modules: str) -> None:
        """Have daemons and commands find a package of a third party (`tests/packages.py`)."""
        self.environment["PYTHONPATH"] += f":{install(self.folder / 'packages', points, **modules)}"

    def for_guest(self, work: Path) -> DaemonHome:
        """The same daemon for a test that neither ends it nor changes its settings, with a working
        folder and environment of its own."""
        guest = copy.copy(self)
        guest.work, guest.environment = work, {**self.environment}
        work.mkdir()
        return guest

    # ------------------------------------------------------------- commands

    def radrm(
        self, *words: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command. A JSON document that it prints is as the schema says."""
        environment = {**self.environment, **(env or {})}
        done = forks.run(words, environment, self.work, self.forked)
        if "--json" in words and done.stdout[:1] in ("[", "{"):
            errors = errors_of(words, json.loads(done.stdout))
            assert not errors, "\n".join(errors)
        return done

    def json(self, *words: str) -> Any:
        """What a command answers; jobs with the fields that their documents leave out."""
        done = self.radrm(*words, "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        if words[0] in ("status", "wait") and "--cluster" not in words:
            return [whole(job) for job in found]
        if words[0] == "explain" and "--cluster" not in words:
            return {**found, "job": whole(found["job"])}
        return found

    def file(self, name: str, text: str) -> Path:
        path = self.work / name
        path.write_text(text)
        return path

    def submit(self, *words: str) -> int:
        """Submit one job; its id, once the daemon has taken it in."""
        done = self.radrm("submit", "--json", *words)
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)

        def taken_in() -> int | None:
            with suppress(Refused):
                number: int = self.job(result["ticket"])["id"]
                return number
            return None

        return result["id"] or wait_until(taken_in, f"{result['ticket']} to be taken in")

    def job(self, job: int | str) -> dict[str, Any]:
        """A job's document, with the fields that it leaves out."""
        (document,) = self.ask("status", jobs=[str(job)])
        return whole(document)

    def wait_state(self, job: int | str, *states: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            document = self.job(job)
            return document if document["state"] in states else None

        return wait_until(reached, f"job {job} to be {' or '.join(states)}: {self.job(job)}")

    def wait_end(self, job: int | str) -> dict[str, Any]:
        return self.wait_state(job, "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")

    def output(self, job: int, suffix: str = "out") -> str:
        return (self.work / f"radrm-{job}.{suffix}").read_text()


def simjob(gigabytes: int, smact: float, seconds: int) -> list[str]:
    """The command of a job that uses a simulated GPU."""
    words = ["radrm-simjob", "--gpu-memory", f"{gigabytes}G", "--smact", str(smact)]
    return [*words, "--seconds", str(seconds), "--ramp", "2", "--print-every", "2"]
