"""Resizes of running jobs, through a real daemon and a stand-in of `radrun`."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.elastic.home import ElasticHome, elastic_home
from tests.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ElasticHome]:
    with elastic_home(tmp_path) as found:
        yield found


def test_a_job_grows_and_shrinks_and_every_task_has_its_own_gpu(home: ElasticHome) -> None:
    home.start()
    job = home.train()
    first = home.task_of(1, 0)
    assert (
        first["RADRM_GPUS"] == "1" and first["CUDA_VISIBLE_DEVICES"] == home.job(job)["devices"][0]
    )
    assert first["PATH"].startswith(home.environment["PATH"])
    (place,) = home.places
    assert first["RADRM_ELASTIC_DIR"] == str(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700 and place.stat().st_uid == os.getuid()
    home.resize(job, 3)
    home.wait_held(job, 3)
    tasks = [home.task_of(2, number) for number in range(3)]
    assert {task["CUDA_VISIBLE_DEVICES"] for task in tasks} == set(home.job(job)["devices"])
    assert {task["RADRM_GPUS"] for task in tasks} == {"3"}
    assert tasks[0]["CUDA_VISIBLE_DEVICES"] == first["CUDA_VISIBLE_DEVICES"], "it stays where it is"
    assert home.taken() == 3
    home.resize(job, 1)
    home.wait_held(job, 1)
    assert home.taken() == 1 and home.task_of(3, 0)["RADRM_GPUS"] == "1"
    assert [mib > 0 for mib in home.contexts()].count(True) == 1
    home.finish()
    found = home.wait_end(job)
    assert found["state"] == "COMPLETED" and found["attempts"] == 1
    wait_until(lambda: not home.places, "the removal of the folder")


def test_a_resize_that_the_launcher_refuses_leaves_all_as_it_was(home: ElasticHome) -> None:
    home.start()
    job = home.train()
    home.file("does-fails", "")
    home.resize(job, 4)
    home.wait_held(job, 1)
    assert "radrun: no room for it" in home.said()
    assert home.job(job)["resize_error"] == "radrun: no room for it"
    assert home.taken() == 1 and home.job(job)["state"] == "RUNNING"
    (home.work / "does-fails").unlink()
    home.resize(job, 2)
    home.wait_held(job, 2)
    assert home.task_of(3, 1)["RADRM_GPUS"] == "2", "a number is never used twice"


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("torn", "radrun's answer resized-2.json is not usable: it is not JSON"),
        (
            "wrong",
            "radrun's answer resized-2.json names 1 tasks that are not the 1 of the placement",
        ),
    ],
)
def test_a_shrink_with_a_wrong_answer_frees_no_gpu(home: ElasticHome, word: str, why: str) -> None:
    home.start()
    job = home.train()
    home.resize(job, 2)
    home.wait_held(job, 2)
    home.file(f"does-{word}", "")
    home.resize(job, 1)
    wait_until(lambda: why.replace("-2", "-3") in home.said(), home.said())
    assert home.held(job) == home.taken() == 2 and home.job(job)["state"] == "RUNNING"


# ------------------------------------------------------------------ withdrawal


def test_a_resize_without_an_answer_is_withdrawn(home: ElasticHome) -> None:
    home.fixed = ["core.resize_limit_s=2"]
    home.start()
    job = home.train()
    home.file("does-silent", "")
    home.resize(job, 2)
    home.wait_held(job, 1)
    (place,) = home.places
    assert json.loads((place / "begun-2").read_text()) == {"version": 1, "by": "radrm"}
    assert home.taken() == 1 and home.job(job)["state"] == "RUNNING"


def test_a_resize_that_has_begun_is_not_withdrawn(home: ElasticHome) -> None:
    home.fixed = ["core.resize_limit_s=2"]
    home.start()
    job = home.train()
    home.file("wait-begun", "")

    def begun() -> bool:
        """On a slow machine a resize is withdrawn before its launcher looks: ask again."""
        if home.job(job)["resizing"] is None:
            home.resize(job, 2)
        return bool(list(home.work.glob("at-begun-*")))

    wait_until(begun, "its begin")
    wait_until(lambda: "its resize is withdrawn if it can be" in home.said(), "the deadline")
    assert home.taken() == 2 and home.job(job)["resizing"] is not None
    (home.work / "wait-begun").unlink()
    home.wait_held(job, 2)
    assert home.job(job)["state"] == "RUNNING"


# ------------------------------------------------------------------ claims


def test_a_gpu_is_not_given_on_while_a_process_of_the_job_is_there(home: ElasticHome) -> None:
    home.start()
    job = home.train("--requeue")
    home.resize(job, 2)
    home.wait_held(job, 2)
    home.file("does-keeps", "")
    other = home.submit("--gpus=3", "--gpu-memory=2G", "--", "touch", "other")
    home.resize(job, 1)
    wait_until(lambda: "after it gave that GPU back" in home.said(), home.said())
    (home.work / "does-keeps").unlink()
    wait_until(lambda: home.job(job)["attempts"] == 2, "its next attempt")
    home.wait_end(other)
    assert "is stopped: it has processes on GPU-" in home.said()
