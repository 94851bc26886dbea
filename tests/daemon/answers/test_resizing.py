"""`radrm resize` on a real daemon with simulated GPUs: sizes, answers, and what users see.

Most jobs here save their work and are started again at their new size, which needs no launcher.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from radrm.daemon.answers.running import _wanted
from radrm.errors import UsageError
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

TRAINER = ["radrm-simjob", "--gpu-memory", "4G", "--smact", "0.3", "--ramp", "1", "--loss-k", "3"]


@pytest.fixture
def home(home: DaemonHome, request: pytest.FixtureRequest) -> DaemonHome:
    """A daemon; the parameter: the real seconds that a job has to save its work."""
    home.gpus, home.scale = "sim:3xA100-40GB", 50.0
    home.settings = [f"checkpoint.patience_s={getattr(request, 'param', 60)}"]
    home.settings += ['planner=["auto","elastic"]', "planners.elastic.interval_s=3600"]
    # radrun needs real time: as much as a slow machine takes to start workers.
    home.fixed = ["core.resize_limit_s=3000"]
    home.start()
    return home


def begin(home: DaemonHome, *options: str, saves: str = "1") -> int:
    """Submit an elastic job, and wait until it is at work: it handles the signal then."""
    words = ["--", *TRAINER, "--seconds", "5000", "--saves", saves]
    job = home.submit("--gpus=1-3", "--checkpoint=signal", *options, *words)
    log = home.work / f"radrm-{job}.out"
    wait_until(lambda: log.exists() and "epoch" in log.read_text(), f"job {job} to be at work")
    wait_until(lambda: all(g["used_mib"] is not None for g in home.ask("gpus")), "readings")
    return job


def size(document: dict[str, Any]) -> tuple[int, int, int, int]:
    (role,) = document["roles"]
    return document["gpus"], document["gpus_min"], document["gpus_max"], role["count"]


def test_what_is_impossible_is_refused_and_another_size_comes_with_the_work(
    home: DaemonHome,
) -> None:
    job = begin(home)
    plain = home.submit("--collocation=exclusive", "--", "sleep", "1000")
    held = home.submit("--hold", "--gpus=1-2", "--checkpoint=signal", "--", "true")
    home.wait_state(plain, "RUNNING")
    user = home.job(job)["user"]
    for words, message in (
        ([str(held), "--gpus=2"], "only a running job can get that size"),
        ([str(plain), "--gpus=2"], f"job {plain} keeps the size of its start"),
        ([str(job), "--gpus=4"], f"job {job} cannot run with 4 GPUs; its range is 1-3"),
        ([str(job), "--gpus=1"], f"job {job} has that size already: 1 GPU"),
        ([str(job), "--role=ps=1"], f"job {job} has no role 'ps'; it has main"),
        ([str(job), "--gpus=3"], f"GPU 1: job {plain} ({user})"),
    ):
        done = home.radrm("resize", *words)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert message in done.stderr
    assert home.job(job)["attempts"] == 1
    edited = home.radrm("edit", str(job), "--gpus=1-2")
    assert edited.returncode == 1 and f"radrm resize {job} --gpus=N" in edited.stderr
    wider = home.radrm("edit", str(held), "--gpus=1-3")
    assert wider.returncode == 0 and home.job(held)["gpus_max"] == 3, wider.stderr
    bad = home.radrm("edit", str(held), "--gpus=1-3", "--checkpoint=none")
    assert "edited options: --gpus=1-3 is a range" in bad.stderr
    home.ask("cancel", jobs=[str(plain), str(held)])
    home.wait_state(plain, "CANCELLED")
    wait_until(lambda: sum(g["state"] == "idle" for g in home.ask("gpus")) == 2, "room")
    assert size(home.job(job)) == (1, 1, 3, 1)
    assert "1 of 1-3 GPUs" in home.radrm("status").stdout
    done = home.radrm("resize", str(job), "--gpus=2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Resized job {job} (radrm-simjob): 2 of 1-3 GPUs\n"
    larger = home.wait_state(job, "RUNNING")
    assert size(larger) == (2, 1, 3, 2) and len(larger["devices"]) == 2
    assert larger["saved_work_done"] > 0 and larger["resizing"] is None
    assert [task["gpus"] for task in larger["tasks"]] == [[uuid] for uuid in larger["devices"]]
    assert "2 of 1-3 GPUs" in home.radrm("explain", str(job)).stdout
    log = home.work / f"radrm-{job}.attempt2.out"
    wait_until(lambda: log.exists() and "epoch" in log.read_text(), "it to be at work again")
    assert home.radrm("resize", str(job), "--role", "main=1").returncode == 0
    smaller = home.wait_state(job, "RUNNING")
    assert size(smaller) == (1, 1, 3, 1)
    free = [gpu for gpu in home.ask("gpus") if gpu["uuid"] not in smaller["devices"]]
    assert [gpu["reserved_mib"] for gpu in free] == [0, 0]


@pytest.mark.parametrize("home", [3], indirect=True)
def test_a_job_that_does_not_save_keeps_its_size(home: DaemonHome) -> None:
    job = begin(home, saves="never")
    # In one breath: after its patience the request is over.
    first, found, second = (
        home.ask("resize", jobs=[str(job)], gpus=2),
        home.job(job)["resizing"],
        home.ask("resize", jobs=[str(job)], gpus=3),
    )
    assert first[0]["error"] is None and found == {"gpus": 2, "roles": {"main": 2}}
    assert f"job {job} is being resized already, to 2 GPUs" in second[0]["error"]
    wait_until(lambda: home.job(job)["resizing"] is None, "the end of the request")
    done = home.radrm("resize", str(job), "--gpus=2")
    assert done.returncode == 1 and f"job {job} keeps its size: no answer within" in done.stderr
    assert size(home.job(job)) == (1, 1, 3, 1)
    assert sum(gpu["reserved_mib"] > 0 for gpu in home.ask("gpus")) == 1


# ------------------------------------------------------------------ with radrun

PROGRAM = """
import os, subprocess, time
from radrm import elastic
data = elastic.ShardedDataset(list(range(100_000)), epochs=1, seed=7)
elastic.load()
if os.environ["RANK"] == "0":
    subprocess.run(["radrm", "progress", "--epoch", "3"], check=True)
for batch in elastic.loader(data, global_batch=4):
    time.sleep(0.02)
    if elastic.step(loss=1.0, total=25_000):
        elastic.save({})
"""


def test_radrun_changes_the_workers_of_the_same_attempt(home: DaemonHome) -> None:
    launcher = home.work / "radrun"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m radrm.elastic.radrun "$@"\n')
    launcher.chmod(0o755)
    (home.work / "train.py").write_text(PROGRAM)
    job = home.submit("--gpus=1-2", "--", str(launcher), "train.py")
    wait_until(lambda: (home.job(job)["progress"] or {}).get("step"), "its first step")
    assert home.job(job)["progress"]["epoch"] == 3, "its own reports count beside radrun's"
    explained = home.radrm("explain", str(job)).stdout
    assert "1 of 1-2 GPUs" in explained and "does not grow: elastic: " in explained
    done = home.radrm("resize", str(job), "--gpus=2")
    assert (done.returncode, done.stderr) == (0, "")
    document = home.job(job)
    assert (document["attempts"], document["gpus"]) == (1, 2)
    assert [task["gpus"] for task in document["tasks"]] == [[uuid] for uuid in document["devices"]]
    assert "main 1" in home.radrm("status", str(job)).stdout
    assert home.radrm("resize", str(job), "--gpus=1").returncode == 0
    assert size(home.job(job)) == (1, 1, 2, 1) and home.job(job)["attempts"] == 1


@pytest.mark.parametrize(
    "line",
    [
        b'{"op": "resize", "jobs": ["1"]}\n',
        b'{"op": "resize", "jobs": ["1"], "gpus": "2"}\n',
        b'{"op": "resize", "jobs": ["1"], "gpus": true}\n',
        b'{"op": "resize", "jobs": ["1"], "gpus": 2, "roles": {"main": 2}}\n',
        b'{"op": "resize", "jobs": ["1"], "roles": [1]}\n',
        b'{"op": "resize", "jobs": ["1"], "roles": {"main": -1}}\n',
        b'{"op": "resize", "jobs": ["1"], "roles": {"main": 1e9}}\n',
    ],
)
def test_a_request_is_not_trusted(line: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        _wanted(json.loads(line))
    assert "\n" not in str(caught.value)
