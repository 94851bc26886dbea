"""Which copies of the code are removed: those whose jobs have all ended, but the newest."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.client import snapshots
from radrm.client.snapshots import Copies
from radrm.errors import Refused, Unreachable
from radrm.host.snapshots import copies
from radrm.host.storage.paths import Paths
from radrm.jobfile.radfile import wrap_command
from tests.cli.fakes import Script


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    found = Paths(str(tmp_path / "state"), str(tmp_path / "run"))
    os.makedirs(found.spool)
    (tmp_path / "code/sub").mkdir(parents=True)
    (tmp_path / "code/sub/main.py").write_text("x")
    monkeypatch.chdir(tmp_path / "code")
    monkeypatch.setattr(snapshots, "KEPT", 1)
    return found


def copy(paths: Paths, **raw: Any) -> tuple[str, str]:
    """Make a copy. Returns the ticket of its job, and where that runs."""
    of_one_submit = Copies(paths)
    job_file = wrap_command(["true"], {"snapshot": ".", **raw})
    made = of_one_submit.of(job_file)
    assert of_one_submit.of(job_file) is made, "one copy for all jobs of one folder"
    ticket = snapshots.new_ticket()
    of_one_submit.make([{"copy": made, "envelope": SimpleNamespace(ticket=ticket)}])
    return ticket, made.run_folder(job_file)


def test_a_job_runs_at_its_place_in_the_copy(paths: Paths) -> None:
    _, folder = copy(paths, chdir="sub")
    assert os.listdir(folder) == ["main.py"] and folder.startswith(paths.state)
    _, folder = copy(paths, snapshot="sub")
    assert os.listdir(folder) == ["main.py"], "the submit directory is not in it"


def test_ended_copies_go_but_the_newest(paths: Paths) -> None:
    """A waiting job, one that the daemon has not taken in and one of another daemon keep theirs."""
    place = f"{paths.state}/snapshots"
    states: dict[str, Any] = {}
    kept = []
    for answer in (
        {"COMPLETED": 1},
        {"COMPLETED": 2, "PENDING": 1},
        Refused("none"),
        {"FAILED": 1},
    ):
        ticket, _ = copy(paths)
        states[ticket] = answer
        kept += copies(place)[-1:] if answer != {"COMPLETED": 1} else []
    (unknown,) = [ticket for ticket, answer in states.items() if isinstance(answer, Refused)]
    envelope = Path(paths.spool, f"{unknown}.job")
    envelope.touch()
    other = Paths(paths.state, paths.run)
    of_other = Copies(other)
    of_other._spool = "/elsewhere"
    made = of_other.of(wrap_command(["true"], {"snapshot": "."}))
    of_other.make([{"copy": made, "envelope": SimpleNamespace(ticket=snapshots.new_ticket())}])
    kept.append(made.name)

    def page(words: dict[str, Any]) -> dict[str, Any]:
        answer = states[words["jobs"][0]]
        if isinstance(answer, Exception):
            raise answer
        return {"counts": answer}

    client = Script(page=[page])
    Copies(paths).sweep(client)  # type: ignore[arg-type]
    assert copies(place) == kept
    envelope.unlink()
    Copies(paths).sweep(client)  # type: ignore[arg-type]
    assert len(copies(place)) == len(kept) - 1, "its job is gone from spool and store"


def test_a_daemon_that_does_not_answer_keeps_all(paths: Paths) -> None:
    copy(paths), copy(paths), copy(paths)
    Copies(paths).sweep(Script(page=[Unreachable("away")]))  # type: ignore[arg-type]
    assert len(copies(f"{paths.state}/snapshots")) == 3


def test_what_a_job_has_written_is_named(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = copy(paths)
    copy(paths)
    Path(folder, "model").write_text("x")
    Copies(paths).sweep(Script(page=[{"counts": {"COMPLETED": 1}}]))  # type: ignore[arg-type]
    assert f"what its jobs wrote stays in {folder}" in capsys.readouterr().err
    assert os.listdir(folder) == ["model"]
