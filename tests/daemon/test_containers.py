"""A container that a job has started ends with the job, though it is no child of it.

The engine is a stand-in (tests/standins/bin/docker). Here it makes no control groups, so that
this runs everywhere: the container is found by asking the engine for its label.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.paths import BIN
from tests.waiting import wait_text, wait_until


@pytest.fixture
def docker(home: DaemonHome) -> Iterator[Path]:
    """The folder of the stand-in's daemon; jobs submitted from now on find its client."""
    folder = home.folder / "docker"
    folder.mkdir()
    home.environment["PATH"] = f"{BIN}:{home.environment['PATH']}"
    home.environment["DOCKER_STANDIN"] = str(folder)
    with subprocess.Popen([BIN / "docker", "serve"], env=home.environment) as daemon:
        wait_until((folder / "serving").exists, "the engine")
        yield folder
        daemon.kill()


JOB = """#!/bin/sh
#RAD --env=RADRM_CONTAINER_ENGINE=docker
docker run {arguments} image sh -c 'echo $$ > {pid}; exec sleep 1000' || exit 3
exec sleep 1000
"""


def test_a_cancel_reaches_the_container(home: DaemonHome, docker: Path) -> None:
    home.start()
    pids = [home.work / name for name in ("mine", "other")]
    scripts = [
        home.file("mine.sh", JOB.format(arguments="$RADRM_CONTAINER_ARGS", pid=pids[0])),
        home.file("other.sh", JOB.format(arguments="--label=radrm.attempt=x", pid=pids[1])),
    ]
    jobs = [home.submit("--gpus", "1", str(script)) for script in scripts]
    mine, other = [Path(f"/proc/{wait_text(pid).strip()}") for pid in pids]
    home.ask("cancel", jobs=[str(job) for job in jobs])
    assert [home.wait_end(job)["state"] for job in jobs] == ["CANCELLED", "CANCELLED"]
    wait_until(lambda: not mine.exists(), "its end to be collected")
    assert other.exists(), "what is not labelled as the attempt's is left alone"
    subprocess.run(["kill", "-9", other.name], check=True)
