"""`radrm pilot` under a real Slurm: jobs of one user share the GPUs of one Slurm job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchmarks.cluster.place import prepare
from tests.documents import errors_of
from tests.forks import daemons
from tests.slurm.cluster import Cluster
from tests.standins.nvml_library import Nvml
from tests.waiting import wait_until

T = TypeVar("T")
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
        return daemons.run(words, self.env, self.work)

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

    def jobs(self, ticket: str) -> list[dict[str, Any]]:
        words = ("pilot", "--list", "--all", "--json")
        found = json.loads(self.out(*words))
        assert errors_of(words, found) == []
        return [each for each in found["jobs"] if each["ticket"] == ticket]

    def job(self, ticket: str) -> dict[str, Any]:
        (found,) = self.jobs(ticket)
        return found

    def reaches(self, ticket: str, *states: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            found = self.jobs(ticket)
            return found[-1] if found and found[-1]["state"] in states else None

        found = self.until(reached, f"{ticket} to be {' or '.join(states)}")
        assert found is not None
        return found

    def until(self, condition: Callable[[], T], what: str) -> T:
        def seen() -> str:
            listed = self.radrm("pilot", "--list", "--all").stdout
            logs = (f"{log.name}:\n{log.read_text()}" for log in self.shared.glob("log/*"))
            queue = self.cluster.query("squeue", "--long")
            return "\n".join((what, listed, *logs, queue, self.cluster.said()))

        return wait_until(condition, seen)

    def starts(self, name: str) -> None:
        """Wait until a job of `up` runs."""
        self.until((self.work / f"{name}.up").exists, f"job {name} to run")

    def said(self, pilot: str) -> str:
        path = self.shared / "log" / f"{pilot}.out"
        return path.read_text() if path.exists() else ""

    def processes(self, pilot: str, word: bytes = b"") -> list[int]:
        """The processes of a pilot's Slurm job with a word in their command line."""
        found = []
        node = self.cluster.job(int(pilot))["NodeList"]
        for pid in self.cluster.step_processes(node):
            with suppress(OSError):
                environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                own = f"SLURM_JOB_ID={pilot}".encode() in environ
                if own and not words[0].startswith(b"slurmstepd") and (not word or word in words):
                    found.append(pid)
        return found

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
    pilot = login.pilot(idle="6s")
    for name in ("a", "b"):
        login.starts(name)
        (login.work / f"{name}.end").touch()
    assert login.reaches(early, "COMPLETED")["exit_code"] == 0
    assert login.reaches(bad, "FAILED")["exit_code"] == 3
    for ticket in both:
        login.reaches(ticket, "COMPLETED")
    assert (login.work / f"radrm-{early}.out").read_text() == "1\n"
    assert login.cluster.wait(int(pilot)) == ("COMPLETED", "0:0")
    assert "it had no job for 6s" in login.said(pilot)
    assert (login.homes(), list(login.shared.glob("pilots/*/claimed/*"))) == ([], [])


@pytest.mark.nightly
def test_what_has_not_started_goes_back_and_runs_once_in_the_next_pilot(login: Login) -> None:
    runs = login.up("runs", "--gpus=2", "--collocation=exclusive")
    again = login.up("again", "--gpus=2", "--collocation=exclusive", "--requeue")
    waits = login.submit("--time=1m", "--gpus=2", "--", "sh", "-c", "echo $RADRM_ATTEMPT >> waits")
    array = login.submit("--time=1m", "--gpus=2", "--array=1-3", "--", "sh", "-c", "echo >> array")
    pilot = login.pilot()
    login.starts("runs")
    login.reaches(waits, "PENDING")
    login.cluster.run("scancel", pilot)
    assert login.cluster.wait(int(pilot))[0] == "CANCELLED"
    wait_until(lambda: len(login.homes()) == 0, "the end of the pilot")
    assert login.job(runs)["state"] in ("CANCELLED", "FAILED")
    assert {login.job(each)["state"] for each in (again, waits)} == {"WAITING"}
    (login.work / "again.end").touch()
    second = login.pilot(idle="6s")
    for ticket in (again, waits):
        login.reaches(ticket, "COMPLETED")
    assert login.cluster.wait(int(second)) == ("COMPLETED", "0:0")
    assert (login.work / "waits").read_text() == "1\n"
    assert len((login.work / "array").read_text()) == 3
    assert not (login.work / "runs.end").exists()
    assert [each["state"] for each in login.jobs(array)] == ["COMPLETED"] * 3


def test_a_pilot_that_dies_loses_nothing_that_waited(login: Login) -> None:
    runs = login.up("lost", "--gpus=2", "--collocation=exclusive")
    waits = login.submit("--time=1m", "--gpus=2", "--", "sh", "-c", "echo >> once")
    pilot = login.pilot()
    login.starts("lost")
    login.reaches(runs, "RUNNING")
    login.reaches(waits, "PENDING")
    (daemon,) = login.processes(pilot, b"daemon")
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: "it is started again" in login.said(pilot), "the next daemon")
    wait_until(lambda: set(login.processes(pilot, b"daemon")) - {daemon}, "the next daemon")
    for pid in login.processes(pilot):
        os.kill(pid, signal.SIGKILL)
    assert login.cluster.wait(int(pilot))[0] == "FAILED"
    assert login.job(waits)["state"] == "CLAIMED"
    second = login.pilot(idle="6s")
    login.reaches(waits, "COMPLETED")
    lost = login.reaches(runs, "LOST")
    assert lost["reason"] == "its pilot ended while it ran; submit it again"
    assert login.cluster.wait(int(second)) == ("COMPLETED", "0:0")
    assert (login.work / "once").read_text() == "\n"
    # This Slurm tracks no processes that leave their session: the job ends by itself.
    (login.work / "lost.end").touch()
    ended = login.work / "ended"
    wait_until(lambda: ended.exists() and "lost" in ended.read_text(), "the lost job to end")


def test_a_dry_run_submits_nothing(login: Login) -> None:
    before = login.radrm("pilot", "--list", "--json").stdout
    words = "submit", "--pilot", "--dry-run", "--time=1m", "--name=dry"
    answer = json.loads(login.out(*words, "--json", "--", "true"))
    assert errors_of(("submit",), answer) == []
    (document,) = answer
    assert (document["ticket"], document["name"], document["error"]) == (None, "dry", None)
    assert login.out(*words, "--", "true") == "Would submit dry"
    assert login.radrm("pilot", "--list", "--json").stdout == before


def test_what_is_wrong_is_said_in_one_line(login: Login) -> None:
    short = ("submit", "--pilot", "--time=1m")
    for words, code, said in (
        (("pilot",), 2, "a pilot needs GPUs and a time, as: radrm pilot --gpus 2 --time 8h"),
        (("pilot", "--gpus", "0", "--time", "1h"), 2, "--gpus 0 is not a number from 1 to"),
        (("pilot", "--gpus", "1", "--time", "x"), 2, "--time: 'x' is not a duration"),
        (("pilot", "--gpus", "1", "--time", "1h"), 1, "Invalid generic resource (gres)"),
        (("pilot", "--here"), 2, "radrm pilot --here runs inside a job of Slurm"),
        (("pilot", "--list", "--here"), 2, "--here and --list exclude each other"),
        (("pilot", "--json"), 2, "--all and --json go with --list"),
        (("pilot", "--cancel", "12"), 2, "'12' is no ticket; see: radrm pilot --list"),
        (("submit", "--pilot", "--", "true"), 2, "--pilot needs a time limit, as --time=2h"),
        ((*short, "--after=3", "--", "true"), 2, "--after does not go with --pilot"),
        ((*short, "--wait", "--", "true"), 2, "--wait does not go with --pilot"),
        ((*short, "nowhere.rad"), 1, "cannot read the job file nowhere.rad"),
    ):
        done = login.radrm(*words)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done
        assert said in done.stderr


HOLD = """\
#!/bin/bash
#RAD --time=1m --gpu-memory=2G
echo "$CUDA_VISIBLE_DEVICES" > seen
"""


def test_a_pilot_uses_the_gpus_that_slurm_has_given(login: Login, nvml_driver: Nvml) -> None:
    uuids = [f"GPU-{number}1111111-0000-0000-0000-000000000000" for number in range(3)]
    for uuid in uuids:
        nvml_driver.gpu(uuid, power_mw=120_000, utilization_gpu=0)
    (login.work / "hold.rad").write_text(HOLD)
    ticket = login.submit("hold.rad")
    script = f"exec {sys.executable} -m radrm.cli.main pilot --here --idle 6s"
    given = {"CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_GPUS": "1"}
    exports = "".join(
        f"export {name}={value}\n" for name, value in {**nvml_driver.environment, **given}.items()
    )
    before, login.cluster.env = login.cluster.env, login.env
    try:
        pilot = login.cluster.sbatch(f"{exports}{script}", "--partition=whole")
    finally:
        login.cluster.env = before
    assert login.cluster.wait(pilot) == ("COMPLETED", "0:0"), login.cluster.output(pilot)
    assert login.job(ticket)["state"] == "COMPLETED"
    assert (login.work / "seen").read_text() == f"{uuids[1]}\n"
    assert "1 device(s) (NVML)" in login.cluster.output(pilot)
