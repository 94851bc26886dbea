"""A daemon with a job whose launcher is the stand-in of `radrun`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemon.harness import DaemonHome
from tests.standins.launcher import PROGRAM
from tests.waiting import wait_until

SPEC = "sim:4xA100-40GB"


class ElasticHome(DaemonHome):
    """Four simulated GPUs; the program `radrun` of jobs is the stand-in."""

    def __init__(self, folder: Path, scale: float = 5.0) -> None:
        super().__init__(folder, gpus=SPEC, scale=scale)
        programs = folder / "programs"
        programs.mkdir()
        program = programs / "radrun"
        program.write_text(f"#!{sys.executable} -S\n{PROGRAM}")
        program.chmod(0o755)
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"
        self.settings += ["progress.interval_s=1"]

    def train(self, *words: str) -> int:
        """Submit a job of one to four GPUs and wait until its first task is at work."""
        options = ["--gpus=1-4", "--gpu-memory=2G", *words]
        job = self.submit(*options, "--", "radrun", "train.py")
        wait_until((self.work / "task-1-main-0").exists, f"the first task: {self.said()}")
        self.wait_state(job, "RUNNING")
        return job

    def resize(self, job: int, gpus: int) -> None:
        """Ask for another size. GPUs take no task before they are read, and their SM activity is
        measured."""

        def accepted() -> bool:
            (found,) = self.ask("resize", jobs=[str(job)], gpus=gpus)
            error = found.get("error") or ""
            assert not error or "read" in error or "SM activity" in error, found
            return not error

        wait_until(accepted, "the GPUs to be read")

    def held(self, job: int) -> int:
        """The GPUs that the job holds now."""
        return len(self.job(job)["devices"])

    def wait_held(self, job: int, gpus: int) -> None:
        """Wait until no resize is under way and the job holds so many GPUs."""

        def reached() -> bool:
            found = self.job(job)
            return found["resizing"] is None and len(found["devices"]) == gpus

        wait_until(reached, f"job {job} on {gpus} GPUs: {self.job(job)}\n{self.said()}")

    def contexts(self) -> list[int]:
        """The memory that is used on each GPU, in MiB, as the driver shows it."""
        driver = self.driver()
        try:
            uuids = [device["uuid"] for device in driver.ask("devices")["devices"]]
            return [row["used_mib"] for row in driver.ask("read", uuids=uuids)["readings"]]
        finally:
            driver.close()

    def taken(self) -> int:
        """The GPUs that are reserved."""
        return sum(1 for gpu in self.ask("gpus") if gpu["reserved_mib"])

    def task_of(self, generation: int, number: int) -> dict[str, str]:
        """The environment of a task."""
        path = self.work / f"task-{generation}-main-{number}"
        wait_until(path.exists, f"task {number} of generation {generation}")
        found: dict[str, str] = json.loads(path.read_text())
        return found

    @property
    def places(self) -> list[Path]:
        """The folders in which daemon and launchers speak."""
        return list((self.folder / "home" / "elastic").iterdir())

    def finish(self, code: int = 0) -> None:
        self.file(".finish", str(code))
        os.rename(self.work / ".finish", self.work / "finish")


@contextmanager
def elastic_home(folder: Path, **words: Any) -> Iterator[ElasticHome]:
    home = ElasticHome(folder, **words)
    try:
        yield home
    finally:
        for held in home.work.glob("wait-*"):
            held.unlink()
        home.close()
