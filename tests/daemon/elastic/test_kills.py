"""`kill -9` of the daemon at each step of a resize: the next one knows what the job has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.elastic.home import ElasticHome, elastic_home
from tests.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ElasticHome]:
    with elastic_home(tmp_path) as found:
        yield found


def placed(home: ElasticHome, generation: int) -> dict[str, object]:
    (place,) = home.places
    found = (place / f"placement-{generation}.json").stat()
    return {"inode": found.st_ino, "at": found.st_mtime_ns}


@pytest.mark.nightly
def test_a_daemon_killed_at_each_step_of_a_resize(home: ElasticHome) -> None:
    home.start()
    job = home.train()
    steps = (("placed", 3), ("begun", 1), ("ended", 3), ("ended", 1))
    for turn, (step, gpus) in enumerate(steps, start=1):
        home.resize(job, 2)
        home.wait_held(job, 2)
        generation = 2 * turn + 1
        home.file(f"wait-{step}", "")
        home.resize(job, gpus)
        wait_until((home.work / f"at-{step}-{generation}").exists, step)
        before = placed(home, generation)
        home.kill()
        if step != "ended":
            home.start()
            assert home.job(job)["resizing"] is not None and home.taken() == max(2, gpus)
            (home.work / f"wait-{step}").unlink()
        else:  # the answer came while no daemon ran
            (home.work / f"wait-{step}").unlink()
            home.start()
        home.wait_held(job, gpus)
        assert home.taken() == gpus and placed(home, generation) == before, "not written twice"
        assert home.job(job)["attempts"] == 1
    home.resize(job, 4)
    home.wait_held(job, 4)


def test_a_job_that_ends_while_no_daemon_runs_leaves_no_folder(home: ElasticHome) -> None:
    home.start()
    job = home.train()
    (place,) = home.places
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "file").write_text("x")
    os.mkfifo(place / "pipe")
    home.kill()
    home.finish()
    (folder,) = (home.folder / "home" / "attempts").iterdir()
    wait_until((folder / "exit.json").exists, "its end")
    home.start()
    assert home.wait_end(job)["state"] == "COMPLETED"
    wait_until(lambda: not home.places, "the removal")


# ------------------------------------------------------------------ how tasks end


def test_the_end_names_the_task_that_failed_and_its_exit(home: ElasticHome) -> None:
    home.start()
    job = home.train()
    home.resize(job, 2)
    home.wait_held(job, 2)
    rows = [
        {"role": "main", "task": 0, "pid": 1, "code": None, "signal": 15, "host_oom": False},
        {"role": "main", "task": 1, "pid": 1, "code": 3, "signal": None, "host_oom": False},
    ]
    home.file("does-leave", json.dumps({"version": 1, "generation": 2, "tasks": rows}))
    home.finish(3)
    found = home.wait_end(job)
    assert (found["state"], found["exit_code"]) == ("FAILED", 3)
    assert found["reason"] == "task 1 (main) ended with exit code 3"
    exits = [task["exit_code"] for task in home.job(job)["tasks"]]
    assert exits == [143, 3]


def test_what_each_task_uses_is_known(home: ElasticHome) -> None:
    home.start()
    job = home.train()
    home.resize(job, 2)
    home.wait_held(job, 2)

    def used() -> list[tuple[int, float]]:
        return [(task["memory_mib"], task["cpu_s"]) for task in home.job(job)["tasks"]]

    wait_until(lambda: used() == [(512, 20.0)] * 2, f"{home.job(job)['tasks']}")
