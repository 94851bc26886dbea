"""`radrm logs`: it prints the bytes of a log, or says why not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import radrm.cli.commands.logs
from radrm.errors import Refused
from tests.cli.fakes import Script, job
from tests.cli.runner import invoke


def run(monkeypatch: pytest.MonkeyPatch, client: Script, *words: str) -> Any:
    monkeypatch.setattr(radrm.cli.commands.logs, "ReadingClient", lambda: client)
    return invoke("logs", *words)


def test_the_command_prints_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "err").write_bytes(b"1\n2\n\xff\xfe\n")
    where = {"stdout": "/nowhere", "stderr": str(tmp_path / "err"), "live": False, "attempt": 1}
    client = Script(logs=[where])
    assert run(monkeypatch, client, "5", "--stderr").stdout_bytes == b"1\n2\n\xff\xfe\n"
    done = run(monkeypatch, client, "5", "--stderr", "--lines", "1", "--attempt", "1")
    assert done.stdout_bytes == b"\xff\xfe\n"
    assert client.asked[-1] == ("logs", {"jobs": ["5"], "attempt": 1})
    assert run(monkeypatch, client, "5").stdout_bytes == b"1\n2\n\xff\xfe\n"
    where["stderr"] = "/nowhere"
    missing = run(monkeypatch, client, "5")
    assert isinstance(missing.exception, Refused) and "/nowhere" in str(missing.exception)


@pytest.mark.parametrize("words", [["5", "--attempt", "0"], ["5", "--lines", "-1"], []])
def test_usage(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    assert run(monkeypatch, Script(), *words).exit_code == 2


def test_of_two_files_the_one_that_was_written_last_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"stdout": str(tmp_path / "out"), "stderr": str(tmp_path / "err"), "live": False}
    for name, age_s in (("out", 9), ("err", 5)):
        (tmp_path / name).write_text(f"{name}\n")
        os.utime(tmp_path / name, (age_s, age_s))
    assert run(monkeypatch, Script(logs=[where]), "5").stdout == "err\nout\n"
    os.utime(tmp_path / "err", (9, 1e9))
    assert run(monkeypatch, Script(logs=[where]), "5").stdout == "out\nerr\n"
    where["stderr"] = os.devnull
    assert run(monkeypatch, Script(logs=[where]), "5").stdout == "out\n"


def test_a_name_means_its_latest_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in (1, 2):
        (tmp_path / f"7_{index}").write_text(f"hello\n{index}")

    def logs(words: dict[str, Any]) -> dict[str, Any]:
        if words["jobs"] == ["sweep"]:
            raise Refused("array sweep has 2 jobs")
        path = str(tmp_path / words["jobs"][0])
        return {"stdout": path, "stderr": path, "live": False}

    jobs = [job(1, "COMPLETED", array_id=1)]
    jobs += [job(i, "COMPLETED", array_id=7, label=f"7_{i}") for i in (1, 2)]
    client = Script(logs=[logs], status=[[{**each, "id": i} for i, each in enumerate(jobs)]])
    assert run(monkeypatch, client, "sweep", "--lines", "1").stdout == "7_1 | 1\n7_2 | 2\n"


def test_a_job_that_never_ran_has_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def logs(words: dict[str, Any]) -> dict[str, Any]:
        raise Refused("job 5 has not run")

    ended = {name: value for name, value in job(5, "FAILED").items() if name != "array_id"}
    assert isinstance(
        run(monkeypatch, Script(logs=[logs], status=[[ended]]), "5").exception, Refused
    )
