"""`radrm progress`, inside and outside a job."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.cli.commands.saving import progress
from radrm.errors import UsageError
from tests.report.listener import Listener


@pytest.fixture
def listener(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Listener]:
    """The socket of this process, which looks like a job's."""
    found = Listener(tmp_path_factory.mktemp("l") / "s")
    monkeypatch.setenv("RADRM_PROGRESS", found.path)
    monkeypatch.setenv("RADRM_CHECKPOINT_DIR", str(tmp_path))
    yield found
    found.close()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "radrm.cli.main", "progress", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_it_reports_and_is_silent(listener: Listener) -> None:
    done = run("--step", "120", "--total=1000", "--loss", "-0.31")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert listener.taken() == [{"step": 120, "total": 1000, "loss": -0.31}]


def test_saved_is_written_and_told(listener: Listener, tmp_path: Path) -> None:
    assert run("--saved", "60", "--total", "100").returncode == 0
    assert json.loads((tmp_path / "saved.json").read_text())["work_done"] == 0.6
    assert listener.taken()[-1]["saved"] == 60


def test_without_a_daemon_it_returns_at_once(listener: Listener) -> None:
    listener.close()
    assert run("--step", "1").returncode == 0


def test_outside_a_job_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RADRM_PROGRESS", raising=False)
    done = run("--step", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("radrm: this is no job of radrm; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "nothing to report"),
        ({"step": "many"}, "--step 'many' is not a number"),
        ({"step": "-1"}, "less than 0"),
        ({"loss": "nan"}, "not a finite number"),
        ({"work_done": "1.5"}, "not from 0 to 1"),
        ({"step": "5", "total": "4"}, "more than --total"),
        ({"saved": "inf"}, "--saved inf is not a finite number"),
    ],
)
def test_mistakes(listener: Listener, given: dict[str, str], why: str) -> None:
    names = ("step", "total", "epoch", "loss", "work_done", "saved")
    with pytest.raises(UsageError, match=why):
        progress(**{**dict.fromkeys(names, ""), **given})
    assert listener.taken() == []
