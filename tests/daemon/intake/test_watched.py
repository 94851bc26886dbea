"""A `.rad` file that lies in the spool folder is a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def daemon(shared_daemon: DaemonHome) -> DaemonHome:
    return shared_daemon


def script(daemon: DaemonHome, name: str) -> str:
    return f"#!/bin/sh\n#RAD --name={name} --gpus=0 --chdir={daemon.work}\nenv >{name}.env\n"


def ended(daemon: DaemonHome, name: str) -> str:
    """The ticket of the one job of this name, once it has completed."""

    def one() -> dict[str, str] | None:
        jobs = [job for job in daemon.ask("status", all=True) if job["name"] == name]
        assert len(jobs) <= 1
        return jobs[0] if jobs and jobs[0]["state"] == "COMPLETED" else None

    return wait_until(one, f"the job {name}")["ticket"]


def test_a_file_in_ones_own_spool_is_a_job(daemon: DaemonHome) -> None:
    told = daemon.radrm("spool")
    folder = Path(told.stdout.rstrip("\n"))
    assert told.returncode == 0 and folder.samefile(daemon.folder / "home" / "spool")
    (folder / "a file.rad").write_text(script(daemon, "dropped"))
    (folder / "wrong.rad").write_text("#RAD --gpu=1\ntrue\n")
    ticket = ended(daemon, "dropped")
    wait_until((folder / "done" / f"{ticket}.a file.rad").exists, "it to be put away")
    environment = dict(
        line.split("=", 1)
        for line in (daemon.work / "dropped.env").read_text().splitlines()
        if "=" in line
    )
    assert environment["RADRM_HOME"] == daemon.environment["RADRM_HOME"]
    in_jobs = str(REPOSITORY / "radrm" / "in_jobs")
    assert environment["PYTHONPATH"] == in_jobs, "it is a login's, not the daemon's"
    (reason,) = wait_until(lambda: list((folder / "refused").glob("*.txt")), "the reason")
    assert "did you mean --gpus?" in reason.read_text()
    for path in (folder / "refused").iterdir():
        path.unlink()
