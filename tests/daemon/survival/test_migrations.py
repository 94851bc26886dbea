"""`kill -9` of daemon, runner and watcher at each step of a migration: no work is lost.

The job waits at each step until a file is there, so that a test can kill at that step.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.harness import DaemonHome
from tests.daemon.trainers import saved_step
from tests.waiting import wait_until

# Notes each step in a file. It saves when `save` exists, ends after TERM when `end` does.
TRAINER = """
import importlib.util, json, os, signal, sys, time
spec = importlib.util.spec_from_file_location("report", os.environ["RADRM_REPORT_PY"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
by_log = "log" in sys.argv
attempt = os.environ["RADRM_ATTEMPT"]
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)
def leave(number, frame):
    open("ending-" + attempt, "w").close()
    wait("end")
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
report = module.Reporter()
try:
    with open(os.path.join(os.environ["RADRM_CHECKPOINT_DIR"], "saved.json")) as file:
        first = step = int(json.load(file)["step"])
except FileNotFoundError:
    first = step = 0
with open("draft", "w") as file:
    file.write(str(first))
os.rename("draft", f"begun-{attempt}")
while not os.path.exists("finish"):
    step = min(step + 1, 90)
    if by_log:
        print(f"step={step} total=100", flush=True)
    else:
        report.progress(step=step, total=100)
    if report.checkpoint_wanted():
        open("asked-" + attempt, "w").close()
        wait("save")
        if by_log:
            print(f"saved={step}", flush=True)
        else:
            report.saved(step=step, total=100)
    time.sleep(0.01)
"""


@pytest.fixture
def home(home: DaemonHome) -> Iterator[DaemonHome]:
    home.scale = 20.0
    # A job that should save or end has until its test lets it, however slowly a daemon starts.
    home.settings = ["progress.interval_s=1", "core.grace_s=1200", "checkpoint.patience_s=1200"]
    yield home
    for name in ("save", "end", "finish"):
        home.file(name, "")


def begin(home: DaemonHome, *words: str, by: str = "reporter") -> int:
    home.start()
    home.file("trainer.py", TRAINER)
    command = [sys.executable, "-I", "-S", "trainer.py", by]
    options = ["--gpu-memory=4G", "--checkpoint=signal", *words]
    job = home.submit(*options, "--", *command)
    wait_until((home.work / "begun-1").exists, "the job to be at work")
    home.wait_state(job, "RUNNING")
    return job


def migrate(home: DaemonHome, job: int, until: str) -> str:
    """Begin a migration and wait for a step of it; return the device that the job leaves."""
    (before,) = home.job(job)["devices"]
    done = home.radrm("migrate", str(job), "--no-wait")
    assert done.returncode == 0, done.stderr
    wait_until((home.work / until).exists, until)
    return str(before)


def arrived(home: DaemonHome, job: int, attempt: int = 2) -> dict[str, Any]:
    wait_until((home.work / f"begun-{attempt}").exists, f"attempt {attempt}: {home.job(job)}")
    return home.wait_state(job, "RUNNING")


def begun_step(home: DaemonHome, attempt: int) -> int:
    return int((home.work / f"begun-{attempt}").read_text())


def devices_taken(home: DaemonHome) -> int:
    return sum(1 for gpu in home.ask("gpus") if gpu["reserved_mib"])


def runner(home: DaemonHome) -> tuple[int, int]:
    """The pids of the runner and of the job."""
    (path,) = (home.folder / "home" / "attempts").glob("*/start.json")
    record = json.loads(path.read_text())
    return record["runner_pid"], record["pid"]


# ------------------------------------------------------------------ the daemon


@pytest.mark.parametrize("ends", ["while no daemon runs", "under the next daemon"])
def test_a_daemon_killed_between_the_stop_and_the_start(home: DaemonHome, ends: str) -> None:
    job = begin(home)
    home.file("save", "")
    before = migrate(home, job, "ending-1")
    home.kill()
    if ends == "while no daemon runs":
        home.file("end", "")
        (folder,) = (home.folder / "home" / "attempts").iterdir()
        wait_until((folder / "exit.json").exists, "the end of the first attempt")
    home.start()
    if ends == "under the next daemon":
        assert home.job(job)["state"] == "STOPPING" and devices_taken(home) == 2
        home.file("end", "")
    found = arrived(home, job)
    assert (found["moves"], found["attempts"]) == (1, 2) and found["devices"] != [before]
    assert begun_step(home, 2) == saved_step(home, job) > 0
    assert devices_taken(home) == 1


@pytest.mark.parametrize("saves", [True, False])
def test_a_daemon_killed_while_the_save_is_open(home: DaemonHome, saves: bool) -> None:
    home.settings[-1:] = [f"checkpoint.patience_s={1200 if saves else 3}"]
    job = begin(home)
    home.file("end", "")
    before = migrate(home, job, "asked-1")
    home.kill()
    home.start()
    if saves:
        assert home.job(job)["checkpoint_pending"] and devices_taken(home) == 2
        home.file("save", "")
        found = arrived(home, job)
        assert (found["moves"], found["attempts"]) == (1, 2) and found["devices"] != [before]
        assert begun_step(home, 2) == saved_step(home, job) > 0
    else:
        wait_until(lambda: not home.job(job)["checkpoint_pending"], "the deadline")
        found = home.job(job)
        assert (found["state"], found["moves"], found["attempts"]) == ("RUNNING", 0, 1)
    assert devices_taken(home) == 1


@pytest.mark.nightly
def test_a_daemon_killed_anywhere_in_migrations(home: DaemonHome) -> None:
    chance = random.Random(15)
    job = begin(home)
    for name in ("save", "end"):
        home.file(name, "")
    for number in range(1, 6):
        assert home.radrm("migrate", str(job), "--no-wait").returncode == 0
        for _ in range(chance.randrange(120)):
            home.ask("ping")
        home.kill()
        home.start()
        found = arrived(home, job, number + 1)
        assert (found["moves"], found["attempts"]) == (number, number + 1)
        assert begun_step(home, number + 1) == saved_step(home, job) >= begun_step(home, number)
        assert devices_taken(home) == 1


# ------------------------------------------------------------------ the runner


@pytest.mark.parametrize(
    ("step", "again"),
    [
        ("ending-1", True),
        pytest.param("asked-1", True, marks=pytest.mark.nightly),
        pytest.param("asked-1", False, marks=pytest.mark.nightly),
        pytest.param("ending-1", False, marks=pytest.mark.nightly),
    ],
)
def test_a_runner_killed_in_a_migration(home: DaemonHome, step: str, again: bool) -> None:
    job = begin(home, *(["--requeue"] if again else []))
    home.file("save", "")
    assert home.radrm("checkpoint", str(job)).returncode == 0
    kept = saved_step(home, job)
    if step == "asked-1":
        (home.work / "save").unlink()
        (home.work / "asked-1").unlink()
    before = migrate(home, job, step)
    for name in ("save", "end"):
        (home.work / name).unlink(missing_ok=True)
    os.kill(runner(home)[0], signal.SIGKILL)
    if again or step == "ending-1":  # radrm has stopped it to move it: it goes on in any case
        found = arrived(home, job)
        assert found["moves"] == 1 and found["devices"] != [before]
        assert begun_step(home, 2) == saved_step(home, job) >= kept
        assert devices_taken(home) == 1
    else:
        found = home.wait_end(job)
        assert found["state"] == "FAILED", "a job that is not finished"
        assert found["progress"]["step"] == saved_step(home, job)
        wait_until(lambda: not devices_taken(home), "no reservation")
    assert found["saved_work_done"] >= kept / 100


# ------------------------------------------------------------------ the watcher


@pytest.mark.parametrize("by", ["reporter", "log"])
def test_a_watcher_killed_while_the_save_is_open(home: DaemonHome, by: str) -> None:
    home.settings[-1:] = [f"checkpoint.patience_s={1200 if by == 'reporter' else 3}"]
    job = begin(home, "--progress-pattern=auto", by=by)
    home.file("end", "")
    if by == "log":
        wait_until(lambda: home.job(job)["progress"], "a report from the log")
    before = migrate(home, job, "asked-1")
    pid, main = runner(home)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (watcher,) = [int(child) for child in children if int(child) != main]
    os.kill(watcher, signal.SIGKILL)
    home.file("save", "")
    if by == "reporter":
        found = arrived(home, job)
        assert found["moves"] == 1 and found["devices"] != [before]
        assert begun_step(home, 2) == saved_step(home, job) > 0
    else:  # nobody can say that it has saved
        wait_until(lambda: not home.job(job)["checkpoint_pending"], "the deadline")
        found = home.job(job)
        assert (found["state"], found["moves"], found["saved_at"]) == ("RUNNING", 0, None)
    assert devices_taken(home) == 1
    home.file("finish", "")
    assert home.wait_end(job)["state"] == "COMPLETED"
    wait_until(lambda: not devices_taken(home), "no reservation")
