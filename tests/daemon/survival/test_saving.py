"""Jobs that save their work when they are asked, on a real daemon: checkpoints and migrations.

A job that never answers is given up within seconds where that is the test.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from radrm.host.storage.paths import paths_for
from tests.daemon.harness import DaemonHome
from tests.daemon.trainers import (
    LONG_S,
    at_work,
    begin,
    begun_from,
    log_of,
    saved_file,
    saved_step,
    trainer,
)
from tests.waiting import wait_until


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    # A migration waits for a minute of this clock until the next daemon has read its target.
    home.settings, home.scale = ["checkpoint.patience_s=1200"], 20.0
    home.start()
    return home


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[DaemonHome]:
    """One that gives up what does not answer in time."""
    with closing(DaemonHome(tmp_path, scale=50.0)) as found:
        found.settings = ["checkpoint.patience_s=2"]
        found.start()
        yield found


def gpu(home: DaemonHome, job: int) -> str:
    (uuid,) = home.job(job)["devices"]
    return str(uuid)


def reserved(home: DaemonHome) -> list[Any]:
    return [each["reserved_mib"] for each in home.ask("gpus")]


# ------------------------------------------------------------------ checkpoints


def test_a_job_saves_when_it_is_asked_and_goes_on(home: DaemonHome) -> None:
    job = begin(home, "signal", "--saves")
    done = home.radrm("checkpoint", str(job))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Saved job")
    document = home.job(job)
    assert document["state"] == "RUNNING" and document["saved_at"] is not None
    assert 0 < document["saved_work_done"] < 1 and saved_step(home, job) > 0


def test_a_job_that_cannot_save_is_refused_with_the_reason(home: DaemonHome) -> None:
    for options, reason in (
        (["--checkpoint=signal"], "none of its processes handles USR1"),
        ([], "submit it with --checkpoint=signal"),
    ):
        job = home.submit(*options, "--", "sleep", "1000")
        home.wait_state(job, "RUNNING")
        for command in ("checkpoint", "migrate"):
            done = home.radrm(command, str(job))
            assert done.returncode == 1 and reason in done.stderr
        assert home.job(job)["state"] == "RUNNING" and home.job(job)["moves"] == 0
    waiting = home.submit("--hold", "--checkpoint=signal", "--", "true")
    assert "only a running job can" in home.radrm("checkpoint", str(waiting)).stderr
    assert "there is no GPU" in home.radrm("migrate", str(job), "7").stderr


def test_one_that_saves_and_leaves_goes_on_where_it_was(home: DaemonHome) -> None:
    job = begin(home, "exit", "--saves")
    done = home.radrm("checkpoint", str(job))
    assert done.returncode == 0, done.stderr
    wait_until(lambda: home.job(job)["attempts"] == 2, "the next attempt")
    wait_until(lambda: at_work(home, job, 2), "it to be at work")
    document = home.wait_state(job, "RUNNING")
    assert document["saved_work_done"] > 0
    assert begun_from(home, job, 2) >= saved_step(home, job) - 0.1


# ------------------------------------------------------------------ migrations


def test_a_job_moves_with_its_work(home: DaemonHome) -> None:
    job = begin(home, "signal", "--saves")
    before = gpu(home, job)
    done = home.radrm("migrate", str(job))
    assert done.returncode == 0, done.stderr
    document = home.wait_state(job, "RUNNING")
    assert (document["moves"], document["attempts"]) == (1, 2)
    assert gpu(home, job) != before and document["saved_work_done"] > 0
    wait_until(lambda: at_work(home, job, 2), "it to be at work")
    (one,) = [g for g in home.ask("gpus") if g["uuid"] == before]
    assert one["reserved_mib"] == 0
    back = home.radrm("migrate", str(job), str(one["index"]))
    assert back.returncode == 0 and gpu(home, job) == before, back.stderr


def test_a_job_that_leaves_moves_with_its_work(home: DaemonHome) -> None:
    job = begin(home, "exit", "--saves", "5")
    before = gpu(home, job)
    done = home.radrm("migrate", str(job))
    assert done.returncode == 0, done.stderr
    assert gpu(home, job) != before and home.job(job)["moves"] == 1


@pytest.mark.parametrize("how", ["never", "400"])
def test_one_that_saves_too_late_or_never_stays(hasty: DaemonHome, how: str) -> None:
    job = begin(hasty, "signal", "--saves", how)
    before = gpu(hasty, job)
    done = hasty.radrm("migrate", str(job))
    assert done.returncode == 1 and "no answer within 1m40s" in done.stderr
    document = hasty.job(job)
    assert (document["state"], document["moves"], document["attempts"]) == ("RUNNING", 0, 1)
    assert gpu(hasty, job) == before and 0 in reserved(hasty)
    if how != "never":
        wait_until(lambda: hasty.job(job)["saved_at"], "the late save, which counts")
        assert hasty.job(job)["state"] == "RUNNING"


def test_one_that_finishes_while_it_is_asked_has_completed(hasty: DaemonHome) -> None:
    job = begin(hasty, "signal", "--saves", "never", seconds=100)
    done = hasty.radrm("migrate", str(job))
    assert done.returncode == 1
    document = hasty.wait_end(job)
    assert (document["state"], document["moves"]) == ("COMPLETED", 0)
    assert reserved(hasty) == [0, 0]


# ------------------------------------------------------------------ kills


@pytest.mark.parametrize("kind", ["signal", "exit"])
def test_a_daemon_killed_after_the_request_knows_what_was_saved(
    home: DaemonHome, kind: str
) -> None:
    job = begin(home, kind, "--saves", "20")
    before = gpu(home, job)
    assert home.radrm("migrate", str(job), "--no-wait").returncode == 0
    wait_until(lambda: "saving at" in log_of(home, job).read_text(), "the request to reach it")
    home.kill()
    wait_until(saved_file(home, job).exists, "the save, which no daemon hears of")
    home.start()
    wait_until(lambda: home.job(job)["moves"] == 1, f"the migration: {home.job(job)}")
    assert gpu(home, job) != before and home.job(job)["saved_work_done"] > 0


@pytest.mark.parametrize("kind", ["signal", "exit"])
def test_a_request_that_its_daemon_may_not_have_sent_is_sent_by_the_next(
    home: DaemonHome, kind: str
) -> None:
    job = begin(home, kind, "--saves")
    before = gpu(home, job)
    assert home.radrm("migrate", str(job), "--no-wait").returncode == 0
    wait_until(lambda: home.job(job)["checkpoint_pending"] or home.job(job)["moves"], "it")
    home.kill()
    home.start()
    wait_until(lambda: home.job(job)["moves"] == 1, f"the migration: {home.job(job)}")
    assert gpu(home, job) != before and home.job(job)["saved_work_done"] > 0


LEAVES = """
import signal, sys, time
from pathlib import Path

def leave(number, frame):
    signal.signal(number, signal.SIG_DFL)  # as an interpreter does while it ends
    Path("leaves").touch()
    while not Path("may end").exists():
        time.sleep(0.01)
    sys.exit()

signal.signal(signal.SIGTERM, leave)
Path("epoch").touch()
while True:
    time.sleep(1)
"""


def test_a_job_that_leaves_for_an_earlier_daemon_moves_though_it_hears_no_other(
    home: DaemonHome,
) -> None:
    program = home.file("leaves.py", LEAVES)
    job = home.submit("--checkpoint=exit", "--gpu-memory=4G", "--", "python", str(program))
    wait_until((home.work / "epoch").exists, "it to be at work")
    before = gpu(home, job)
    assert home.radrm("migrate", str(job), "--no-wait").returncode == 0
    wait_until((home.work / "leaves").exists, "the request to reach it")
    home.kill()
    home.start()
    wait_until(lambda: "none of its processes handles TERM" in home.said(), "the next request")
    (home.work / "may end").touch()
    wait_until(lambda: home.job(job)["attempts"] == 2, f"the next attempt: {home.job(job)}")
    assert gpu(home, job) != before and home.job(job)["moves"] == 1


def test_a_runner_killed_after_a_save_loses_no_work(home: DaemonHome) -> None:
    job = home.submit("--requeue", "--checkpoint=signal", *trainer("--saves"))
    wait_until(lambda: at_work(home, job), "it to be at work")
    assert home.radrm("checkpoint", str(job)).returncode == 0
    step = saved_step(home, job)
    (folder,) = Path(paths_for(home.environment, os.getuid()).attempts).iterdir()
    assert home.radrm("migrate", str(job), "--no-wait").returncode == 0
    os.kill(json.loads((folder / "start.json").read_text())["runner_pid"], signal.SIGKILL)
    wait_until(lambda: home.job(job)["attempts"] == 2, "the next attempt")
    document = home.wait_state(job, "RUNNING")
    assert document["saved_work_done"] >= step / LONG_S
    wait_until(lambda: sum(1 for mib in reserved(home) if mib) == 1, "one reservation")
