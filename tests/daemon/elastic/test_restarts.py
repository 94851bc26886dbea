"""Jobs of other launchers: another size is a save, a stop, and a start at the new size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.elastic.home import ElasticHome, elastic_home
from tests.waiting import wait_text, wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ElasticHome]:
    with elastic_home(tmp_path, scale=20.0) as found:
        yield found


def begin(home: ElasticHome) -> int:
    home.start()
    options = ["--gpus=1-4", "--gpu-memory=4G", "--checkpoint=signal"]
    work = ["--gpu-memory", "2G", "--seconds", "100000", "--ramp", "1", "--loss-k", "1", "--saves"]
    line = f'echo gpus=$RADRM_GPUS; exec radrm-simjob --gpus "$RADRM_GPUS" {" ".join(work)}'
    job = home.submit(*options, "--", "sh", "-c", line)
    home.wait_state(job, "RUNNING")
    wait_until(lambda: home.job(job)["progress"], "its first report")
    return job


def shown_gpus(home: ElasticHome, job: int, attempt: int) -> str:
    suffix = "" if attempt == 1 else f".attempt{attempt}"
    log = home.work / f"radrm-{job}{suffix}.out"
    return wait_text(log).splitlines()[0]


def test_it_grows_and_shrinks_by_new_attempts_and_its_work_goes_on(home: ElasticHome) -> None:
    job = begin(home)
    home.resize(job, 3)
    home.wait_held(job, 3)
    found = home.wait_state(job, "RUNNING")
    assert found["attempts"] == 2 and home.taken() == 3
    assert [shown_gpus(home, job, n) for n in (1, 2)] == ["gpus=1", "gpus=3"]
    saved = found["saved_work_done"]
    wait_until(lambda: home.job(job)["progress"]["work_done"] > saved, "reports from there")
    assert [mib > 0 for mib in home.contexts()].count(True) == 3
    home.resize(job, 1)
    home.wait_held(job, 1)
    found = home.wait_state(job, "RUNNING")
    assert found["attempts"] == 3 and shown_gpus(home, job, 3) == "gpus=1"
    assert found["saved_work_done"] >= saved and home.taken() == 1
    assert not home.places, "only a launcher that answers has a folder"


def test_a_daemon_killed_while_it_moves_to_another_size(home: ElasticHome) -> None:
    job = begin(home)
    home.resize(job, 2)
    home.kill()
    home.start()
    home.wait_held(job, 2)
    found = home.wait_state(job, "RUNNING")
    assert found["attempts"] == 2 and home.taken() == 2
    assert shown_gpus(home, job, 2) == "gpus=2"
