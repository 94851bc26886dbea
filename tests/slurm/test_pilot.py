"""`radrm pilot` under a real Slurm: jobs of one user share the GPUs of one Slurm job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster.place import prepare
from tests.slurm.cluster import Cluster
from tests.waiting import PATIENCE_S, wait_until

GPUS = "sim:2xA100-40GB"
UP = 'echo up > "$1.up"; while [ ! -e "$1.end" ]; do sleep 0.05; done; echo "$1" >> ended'


class Login:
    """A user on the login node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.folder / "login"
        self.work = self.folder / "work"
        self.work.mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        self.env = {**cluster.env, "HOME": str(self.folder), "TMPDIR": str(self.folder / "tmp")}
        self.env.pop("XDG_DATA_HOME", None)
        self.shared = self.folder / ".local/share/radrm/pilots"

    def radrm(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "radrm.cli.main", *words],
            env=self.env,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def out(self, *words: str) -> str:
        done = self.radrm(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, *words: str) -> str:
        """Submit; the ticket."""
        return self.out("submit", "--pilot", "--parsable", *words)

    def up(self, name: str, *options: str) -> str:
        """Submit a job that runs until the file NAME.end is there."""
        fixed = ("--time=1m", "--gpu-memory=4G", f"--name={name}")
        return self.submit(*fixed, *options, "--", "sh", "-c", UP, "sh", name)

    def pilot(self, time: str = "30m", idle: str = "never", *more: str) -> str:
        """Start a pilot; the number of its Slurm job."""
        words = ("--time", time, "--simulate", GPUS, "--idle", idle, "--partition", "whole")
        return self.out("pilot", *words, *more).split()[3].rstrip(":")

    def listed(self) -> list[dict[str, Any]]:
        found = json.loads(self.out("pilot", "--list", "--all", "--json"))
        assert isinstance(found, list)
        return found

    def job(self, ticket: str) -> dict[str, Any]:
        (found,) = [each for each in self.listed() if each.get("ticket") == ticket]
        return found

    def reaches(self, ticket: str, *states: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            found = [each for each in self.listed() if each.get("ticket") == ticket]
            return found[-1] if found and found[-1]["state"] in states else None

        found = wait_until(reached, f"{ticket} to be {' or '.join(states)}")
        assert found is not None
        return found

    def said(self, pilot: str) -> str:
        path = self.shared / "log" / f"{pilot}.out"
        return path.read_text() if path.exists() else ""

    def homes(self) -> list[Path]:
        return list((self.folder / "tmp").glob("radrm-pilot-*"))


@pytest.fixture(scope="module")
def login(cluster: Cluster) -> Iterator[Login]:
    prepare(cluster)
    yield Login(cluster)


def test_a_pilot_runs_what_waits_and_ends_when_it_is_idle(login: Login) -> None:
    early = login.submit("--time=1m", "--gpu-memory=4G", "--", "sh", "-c", "echo $RADRM_JOB_ID")
    bad = login.submit("--time=1m", "--gpu-memory=4G", "--", "sh", "-c", "exit 3")
    both = [login.up("a"), login.up("b")]
    assert login.job(early)["state"] == "WAITING"
    pilot = login.pilot(idle="3s")
    for name in ("a", "b"):
        wait_until((login.work / f"{name}.up").exists, login.said(pilot))
        (login.work / f"{name}.end").touch()
    assert login.reaches(early, "COMPLETED")["exit_code"] == 0
    assert login.reaches(bad, "FAILED")["exit_code"] == 3
    for ticket in both:
        login.reaches(ticket, "COMPLETED")
    assert (login.work / f"radrm-{early}.out").read_text() == "1\n"
    assert login.cluster.wait(int(pilot)) == ("COMPLETED", "0:0")
    assert "it had no job for 3s" in login.said(pilot)
    assert (login.homes(), list(login.shared.glob("pilots/*/claimed/*"))) == ([], [])


def test_what_has_not_started_goes_back_and_runs_once_in_the_next_pilot(login: Login) -> None:
    runs = login.up("runs", "--gpus=2", "--collocation=exclusive")
    again = login.up("again", "--gpus=2", "--collocation=exclusive", "--requeue")
    waits = login.submit("--time=1m", "--gpus=2", "--", "sh", "-c", "echo $RADRM_ATTEMPT >> waits")
    array = login.submit("--time=1m", "--gpus=2", "--array=1-3", "--", "sh", "-c", "echo >> array")
    pilot = login.pilot()
    wait_until((login.work / "runs.up").exists, login.said(pilot))
    login.reaches(waits, "PENDING")
    login.cluster.run("scancel", pilot)
    assert login.cluster.wait(int(pilot))[0] == "CANCELLED"
    wait_until(lambda: len(login.homes()) == 0, "the end of the pilot")
    assert login.job(runs)["state"] in ("CANCELLED", "FAILED")
    assert {login.job(each)["state"] for each in (again, waits)} == {"WAITING"}
    (login.work / "again.end").touch()
    second = login.pilot(idle="2s")
    for ticket in (again, waits):
        login.reaches(ticket, "COMPLETED")
    assert login.cluster.wait(int(second)) == ("COMPLETED", "0:0")
    assert (login.work / "waits").read_text() == "1\n"
    assert len((login.work / "array").read_text()) == 3
    assert not (login.work / "runs.end").exists()
    assert [each["state"] for each in login.listed() if each.get("ticket") == array] == [
        "COMPLETED"
    ] * 3
