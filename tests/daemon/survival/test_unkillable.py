"""Processes that the kernel holds: KILL does not end them, and their job never runs twice.

A frozen control group stands in for a driver or a disk that hangs: its processes are in
uninterruptible sleep, and die of a KILL only when it is thawed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.storage.paths import paths_for
from tests.daemon.harness import DaemonHome, simjob
from tests.waiting import wait_until

FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A control group of the freezer (v1). It is thawed at the end, whatever happens."""
    group = FREEZER / f"radrm-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("there is no freezer (control groups v1) that may be used here")
    try:
        yield group
    finally:
        (group / "freezer.state").write_text("THAWED")
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it has just ended
                (FREEZER / "cgroup.procs").write_text(pid)
        group.rmdir()


def test_a_job_whose_processes_outlive_kill_ends_and_its_memory_still_counts(
    home: DaemonHome, freezer: Path
) -> None:
    home.gpus = "sim:1xA100-40GB"
    home.settings, home.fixed = ["core.settle_s=1"], ["core.unkillable_s=0.5"]
    home.start()
    command = " ".join(simjob(20, 0.3, 100_000))
    home.file("held.rad", f"#!/bin/sh\n#RAD --gpu-memory=20G --requeue\necho $$\nexec {command}\n")
    held = home.submit("held.rad")
    wait_until(lambda: used_mib(home) == 20 * 1024, "the job to have its memory")
    pid = int(home.output(held).split()[0])
    (freezer / "cgroup.procs").write_text(str(pid))
    (freezer / "freezer.state").write_text("FROZEN")
    home.ask("requeue", jobs=[str(held)])
    ended = home.wait_end(held)
    assert (ended["state"], ended["attempts"]) == ("FAILED", 1), "not again by itself: it runs"
    assert "may still run" in ended["reason"]
    wait_until(lambda: home.json("gpus")[0]["unmanaged_mib"] == 20 * 1024, "its memory to count")
    waiting = home.submit("--gpu-memory=30G", "--", "true")
    home.kill()
    home.start()
    folder = Path(paths_for(home.environment, os.getuid()).state) / "attempts"
    wait_until(lambda: home.json("gpus")[0]["unmanaged_mib"] == 20 * 1024, "it to be found again")
    assert home.job(waiting)["state"] == "PENDING"
    assert Path(f"/proc/{pid}").exists() and [path.name for path in folder.iterdir()] == ["1"]
    (freezer / "freezer.state").write_text("THAWED")
    assert home.wait_end(waiting)["state"] == "COMPLETED"
    wait_until(lambda: not list(folder.iterdir()), "the folders to be removed")
    assert home.job(held)["state"] == "FAILED"
    assert "which was given up, has ended" in home.said()


def used_mib(home: DaemonHome) -> int:
    used: int = home.json("gpus")[0]["used_mib"]
    return used
