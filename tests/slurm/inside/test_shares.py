"""Which GPUs and CPUs the running steps of a job have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.errors import Refused
from radrm.jobfile.slurm.words import STEPS
from radrm.slurm.inside import shares
from radrm.slurm.inside.request import Job, request

JOB = Job("12", "box", ("a", "b"), ("4", "6"), 4)


class Waited(Exception):
    pass


class Steps:
    """Takes shares, as another living process each time. Raises `Waited` instead of waiting."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.last = 999
        self._folder, self._ended = folder, set[int]()
        monkeypatch.setattr(shares, "identify", lambda _: shares.Identity(self.last, 1, "boot"))
        monkeypatch.setattr(shares, "alive", lambda one: one.pid not in self._ended)

    def __call__(self, words: str, **environ: str) -> tuple[int, str, str]:
        def wait(_: float) -> None:
            raise Waited

        self.last += 1
        environ["RADRM_CHECKPOINT_DIR"] = str(self._folder)
        asked = request([*words.split(), "x"], JOB, {})
        found = shares.take(asked, JOB, environ, lambda _: None, wait)
        return found.number, ",".join(found.gpus), ",".join(found.numbers)

    def end(self, pid: int) -> None:
        self._ended.add(pid)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(tmp_path, monkeypatch)


def test_steps_that_ask_have_different_gpus(steps: Steps) -> None:
    assert steps("--gres=gpu:1 --exclusive") == (0, "a", "4")
    first = steps.last
    assert steps("--gpus=1") == (1, "b", "6")
    with pytest.raises(Waited):
        steps("--gpus=1")
    with pytest.raises(Refused, match="Requested nodes are busy"):
        steps("--gpus=1 --immediate")
    assert steps("") == (2, "a,b", "4,6")  # who asks for nothing waits for nobody
    assert steps("--gpus=1 --overlap") == (3, "a", "4")
    assert steps("--gpus=1", SLURM_STEP_ID="1") == (4, "a", "4")  # inside another step
    steps.end(first)
    with pytest.raises(Waited):  # the step inside has it
        steps("--gpus=1")
    steps.end(steps.last)
    steps.end(1000 + 6)


def test_a_step_that_has_ended_leaves_nothing(steps: Steps) -> None:
    steps("--gpus=2")
    steps.end(steps.last)
    assert steps("--gpus=2") == (1, "a,b", "4,6")


def test_cpus_are_counted_for_steps_that_want_their_own(steps: Steps) -> None:
    steps("--exact -n3")
    steps("-n 4")
    steps("-c 1")
    with pytest.raises(Waited):
        steps("-c 1")


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"next": 1}', '{"next": 0, "steps": {"1": 2}}'])
def test_a_book_that_makes_no_sense_is_empty(steps: Steps, tmp_path: Path, text: str) -> None:
    (tmp_path / STEPS).write_text(text)
    assert steps("--gpus=2")[1] == "a,b"


def test_without_a_folder_the_step_runs(steps: Steps, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / STEPS)
    assert steps("--gpus=2") == (0, "a,b", "4,6")
