"""A daemon on one real GPU, for the acceptance tests."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from radrm.host.gpus.nvml import library as loading
from tests.daemon.harness import DaemonHome

T = TypeVar("T")
PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_S = 300.0
"""PyTorch alone may take a minute to start on a cold disk."""


def short_folder() -> Path:
    """A new folder whose path leaves room for the sockets of an MPS control daemon.

    The address of a socket holds 107 bytes; the folders that pytest makes are too long for it.
    """
    return Path(tempfile.mkdtemp(prefix="rg", dir="/tmp"))


class RealServer(DaemonHome):
    """As in the other tests, but on real GPUs, of which one is used and the others drained.

    No configuration of the user's is read; jobs run by `python`, which has PyTorch.
    """

    def __init__(self, folder: Path, uuid: str, python: str) -> None:
        super().__init__(folder, gpus=None)
        self.uuid = uuid
        self.python = python
        config = folder / "radrm.toml"
        config.touch()
        self.environment["RADRM_CONFIG"] = str(config)
        if (library := loading.chosen()) is not None:
            self.environment[loading.VARIABLE] = library
        # radrm's own dependencies may lie on it.
        paths = [self.environment["PYTHONPATH"], os.environ.get("PYTHONPATH", "")]
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

    def start(self) -> None:
        super().start()
        others = [d["uuid"] for d in self.ask("gpus") if d["uuid"] != self.uuid]
        if others:
            self.ask("drain", devices=others, reason="not under test")
        self.until(lambda: self.device()["used_mib"] is not None, "a reading of the GPU")

    def device(self) -> dict[str, Any]:
        found: dict[str, Any] = next(d for d in self.ask("gpus") if d["uuid"] == self.uuid)
        return found

    def run(self, program: str, *words: object, options: tuple[str, ...] = ()) -> int:
        """Submit one of `programs` as a job; its id."""
        command = [self.python, str(PROGRAMS / program), *map(str, words)]
        return self.submit(*options, "--", *command)

    def report(self, job: int) -> dict[str, Any]:
        """What `matmul.py` says at its end."""
        return last_json(self.output(job))

    def until(self, condition: Callable[[], T], what: str) -> T:
        """The first true value of `condition`; longer patience than with simulated GPUs."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}; the daemon said:\n{self.said()}")
            time.sleep(0.1)
        return found

    def wait_state(self, job: int | str, *states: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            document = self.job(job)
            return document if document["state"] in states else None

        return self.until(reached, f"job {job} to be {' or '.join(states)}: {self.job(job)}")

    def counted(self) -> bool:
        """Whether SM activity comes from hardware counters, and not from utilization.

        They need two samples, or a service that begins: the first readings say nothing yet.
        """
        deadline = time.monotonic() + 20.0
        while time.monotonic() < deadline:
            source = self.device()["smact_source"]
            if source is not None and not source.endswith("-utilization"):
                return True
            time.sleep(0.5)
        return False

    def output(self, job: int, suffix: str = "out") -> str:
        """What a job has printed so far; nothing where it has not begun."""
        try:
            return super().output(job, suffix)
        except FileNotFoundError:
            return ""

    def activity(self, readings: int) -> float | None:
        """The mean SM activity of so many looks, a second apart; None where none was read."""
        seen = []
        for _ in range(readings):
            time.sleep(1.0)
            seen.append(self.device()["smact"])
        return mean(seen)


def last_json(text: str) -> dict[str, Any]:
    """The last line of an output that is a JSON object."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError(f"no report in the output:\n{text}")


def mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
