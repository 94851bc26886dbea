"""Upgrade in place: this daemon adopts what a daemon and a runner of release 0.1.0 have left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.attempts import folder as attempts
from tests.daemon.harness import DaemonHome
from tests.data.stores import load
from tests.paths import REPOSITORY
from tests.waiting import wait_until

SPEC = "sim:4xA100-40GB"
OLD = REPOSITORY / "tests/data/radrm-0.1.0.tar.xz"
OLD_DAEMON = """
import sys
sys.path.insert(0, {old!r})
from radrm import __version__
assert __version__ == "0.1.0"
from radrm.daemon.main import run, set_up_logging
set_up_logging()
rules = ["policy=exclusive", "order=fifo", "planner=default", "estimator=none"]
run("{spec}", 20.0, [*rules, "core.gpuless_at_once=8"])
"""
OLD_RADRUN = """#!{python}
import sys
sys.path.insert(0, {old!r})
from radrm.radrun.main import main
sys.exit(main())
"""
WORKER = """
import os, pathlib, sys, time
sys.path.insert(0, os.path.dirname(os.environ["RADRM_ELASTIC_PY"]))
import elastic
data = elastic.ShardedDataset(range(1000000), epochs=1, seed=7)
elastic.load()
for _ in elastic.loader(data, global_batch=2):
    pathlib.Path("worker-" + os.environ["WORLD_SIZE"] + "-" + os.environ["RANK"]).touch()
    time.sleep(0.05)
    if elastic.step():
        elastic.save({})
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    found = DaemonHome(tmp_path, gpus=SPEC, scale=20.0)
    found.settings = ["core.gpuless_at_once=8", "policy=exclusive"]
    yield found
    found.close()


def start_old(home: DaemonHome, old: Path) -> None:
    """Start the daemon of release 0.1.0, and have its jobs find its `radrun`."""
    with tarfile.open(OLD) as archive:
        archive.extractall(old)
    programs = home.folder / "programs"
    programs.mkdir()
    program = programs / "radrun"
    program.write_text(OLD_RADRUN.format(python=sys.executable, old=str(old)))
    program.chmod(0o755)
    home.environment["PATH"] = f"{programs}:{home.environment['PATH']}"
    environment = {k: v for k, v in home.environment.items() if k != "PYTHONPATH"}
    with home.log.open("ab") as log:
        home.process = subprocess.Popen(
            [sys.executable, "-c", OLD_DAEMON.format(old=str(old), spec=SPEC)],
            env=environment, cwd=old, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    home.served = True
    wait_until(home.answers, f"the old daemon; it said:\n{home.said()}")


def runner_of(home: DaemonHome, serial: int) -> int:
    record, _ = attempts.read_record(str(home.folder / f"home/attempts/{serial}"), attempts.START)
    assert record is not None
    pid: int = record["runner_pid"]
    return pid


def until(word: str) -> list[str]:
    """The command of a job that ends with code 3 once a file is there."""
    return ["--gpus=0", "--", "sh", "-c", f"while [ ! -e {word} ]; do sleep 0.05; done; exit 3"]


def test_jobs_of_the_last_release_are_adopted_in_every_phase(
    home: DaemonHome, tmp_path: Path
) -> None:
    start_old(home, tmp_path / "old")
    home.file("train.py", WORKER)
    runs = home.submit("--name=runs", *until("end"))
    ends = home.submit("--name=ends", *until("ends"))
    killed = home.submit("--name=killed", *until("never"))
    elastic = home.submit("--gpus=1-2", "--gpu-memory=2G", "--", "radrun", "train.py")
    waits = home.submit(f"--after={runs}:failed", "--gpus=0", "--", "true")
    for job in (runs, ends, killed, elastic):
        home.wait_state(job, "RUNNING")
    wait_until((home.work / "worker-1-0").exists, "the worker")
    home.kill()
    victim = runner_of(home, killed)
    os.kill(victim, signal.SIGKILL)
    (home.work / "ends").touch()
    exit_record = home.folder / f"home/attempts/{ends}/exit.json"
    wait_until(exit_record.exists, "an end while no daemon runs")

    home.start()
    assert home.job(ends)["exit_code"] == 3 and home.job(ends)["state"] == "FAILED"
    lost = home.wait_end(killed)
    assert lost["state"] == "FAILED" and "its runner was killed" in lost["reason"]
    assert [home.job(job)["state"] for job in (runs, elastic)] == ["RUNNING", "RUNNING"]
    assert [home.job(job)["attempts"] for job in (runs, elastic)] == [1, 1]
    assert home.job(waits)["state"] == "PENDING"

    def accepted() -> bool:
        (found,) = home.ask("resize", jobs=[str(elastic)], gpus=2)
        return not found.get("error")

    wait_until(accepted, "the GPUs to be read")
    wait_until((home.work / "worker-2-1").exists, f"a second worker; {home.said()}")
    (home.work / "end").touch()
    assert home.wait_end(runs)["exit_code"] == 3
    home.ask("cancel", jobs=[str(elastic)])
    assert home.wait_end(elastic)["state"] == "CANCELLED"
    assert home.wait_end(waits)["state"] == "COMPLETED"
    assert not list((home.folder / "home/attempts").iterdir())


def test_a_daemon_goes_on_from_the_last_releases_store(home: DaemonHome) -> None:
    """Its attempts have no folder here: nothing of them runs, so they begin again."""
    store = home.folder / "home/store"
    store.mkdir(parents=True)
    for folder in (store.parent, store):
        folder.chmod(0o700)
    load("0.1.0", store / "radrm.sqlite", home.work)
    home.start()
    home.wait_state("6_3", "RUNNING")
    home.ask("cancel", jobs=["6"])
    assert home.wait_end(12)["state"] == "COMPLETED"
    assert home.wait_end(13)["state"] == "COMPLETED", "which follows the array, however it ends"
    assert home.submit("--gpus=0", "--", "true") == 16
