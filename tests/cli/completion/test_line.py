"""Which word is completed, and by what; which names are offered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radrm.cli.commands.completion import answer
from radrm.cli.completion import line as values
from radrm.cli.completion.line import TABLE, glued
from radrm.cli.listing import ALIASES
from radrm.cli.listing import commands as listed
from radrm.client.connection import Client
from radrm.errors import Refused
from radrm.jobfile.options import SHOWN
from tests.cli.fakes import ESC, gpu, job
from tools.manual import words


def test_the_words_are_those_of_the_declarations() -> None:
    assert Path(TABLE).read_text() == words(), "run: python -m tools.manual"


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The requests to a daemon that has some jobs, with names that nobody should complete."""
    found: list[tuple[str, dict[str, Any]]] = []
    rows = [job(12, name="train"), job(13, "RUNNING", name="x; rm -rf ~"), job(14, name=ESC)]
    rows += [job(15, name="-rf"), job(20, name="sweep", count=5, label="20_[0-4]", array_id=20)]

    def ask(_: Client, op: str, **words: Any) -> Any:
        found.append((op, words))
        users = [{"user": "ada", "running": 1, "waiting": 0}]
        return {"page": {"jobs": rows}, "gpus": [gpu(0), gpu(1)], "shares": {"users": users}}[op]

    monkeypatch.setattr(Client, "is_up", lambda _: True)
    monkeypatch.setattr(Client, "ask", ask)
    return found


def found(*words: str, of: str = "fish") -> list[str]:
    return [line.partition("\t")[0] for line in answer(of, list(words))][1:]


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("stat",), ["status"]),
        (("-",), ["--help", "--version"]),
        (("help", "stat"), ["status"]),
        (("mps", "st"), ["status", "start", "stop"]),
        (("mps", "start", ""), ["0", "1"]),
        (("status", "--us"), ["--user"]),
        (("ps", "--us"), ["--user"]),
        (("status", "--user", ""), ["ada"]),
        (("status", "--user=a"), ["--user=ada"]),
        (("status", "--state", "running,pen"), ["running,pending"]),
        (("status", "--follow", "tr"), ["train"]),
        (("status", "--limit", "5", "1"), ["12", "13", "14", "15"]),
        (("submit", "--precision", "b"), ["bf16"]),
        (("submit", "--gpu-memory=a"), ["--gpu-memory=auto"]),
        (("submit", "--after=2"), ["--after=20"]),
        (("submit", "--prefer-gpus", "0,"), ["0,0", "0,1"]),
        (("edit", "12", "--ti"), ["--time"]),
        (("edit", "12", "--arr"), []),
        (("simulate", "--policy", "mug,lu"), ["mug,lug"]),
        (("config", "show", "--set", "mps.en"), ["mps.enabled="]),
        (("completion", "z"), ["zsh"]),
        (("nothing", ""), []),
        (("gpus", ""), []),
        (("explain", "12", ""), []),
        (("submit", "--comment", ""), []),
    ],
)
def test_candidates(words: tuple[str, ...], some: list[str]) -> None:
    assert found(*words) == some


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("submit", "tr"), "files\t"),
        (("submit", "--output=a/b"), "files\t--output="),
        (("submit", "--chdir", ""), "folders\t"),
        (("submit", "--gpus", "2", "--", "py"), "command\t"),
        (("submit", "--", "python", "tr"), "files\t"),
        (("run", "--gpus=1", "py"), "command\t"),
        (("config", "show", "--set", ""), "open"),
        (("status", ""), "words"),
    ],
)
def test_what_the_shell_itself_completes(words: tuple[str, ...], first: str) -> None:
    assert answer("fish", list(words))[0] == first


def test_a_name_that_a_shell_would_read_is_not_offered() -> None:
    assert found("logs", "") == ["12", "13", "14", "15", "20", "train", "sweep"]
    helps = [line.partition("\t")[2] for line in answer("fish", ["logs", ""])]
    assert all(text.isprintable() for text in helps)


def test_only_jobs_that_the_command_can_be_about_are_asked_for(asked: Any) -> None:
    found("logs", "")
    found("cancel", "tr")
    assert [(op, words["all"], words.get("jobs")) for op, words in asked] == [
        ("page", True, None),
        ("page", False, ["tr*"]),
    ]


def test_a_daemon_that_refuses_or_is_not_there_means_no_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: Client, op: str, **words: Any) -> Any:
        raise Refused("no job is named like that")

    monkeypatch.setattr(Client, "ask", refuse)
    assert found("logs", "x") == []
    monkeypatch.setattr(Client, "is_up", lambda _: False)
    assert (found("logs", "x"), found("drain", ""), found("status", "--user", "")) == ([], [], [])
    assert values._LIMIT_S <= 1


@pytest.mark.parametrize(
    ("words", "joined", "kept"),
    [
        (["status", "--user", "=", "a"], ["status", "--user=a"], 7),
        (["status", "--user", "="], ["status", "--user="], 7),
        (["submit", "--after", "=", "1", ":", "o"], ["submit", "--after=1:o"], 10),
        (["status", ""], ["status", ""], 0),
        (["status", "--us"], ["status", "--us"], 0),
    ],
)
def test_bash_divides_words(words: list[str], joined: list[str], kept: int) -> None:
    assert glued(words) == (joined, kept)
    assert found("status", "--user", "=", "a", of="bash") == ["ada"]


def test_every_command_and_option_is_offered() -> None:
    assert set(found("")) == set(listed())
    assert set(found("submit", "--")) >= {f"--{o.name}" for o in SHOWN}
    for name in {*listed(), *ALIASES}:
        groups = {
            f"{name} {each}"
            for each in found(name, "")
            if name in ("mps", "config", "service", "slurm")
        }
        assert "--help" in found(name, "--") or groups or name in ("trace", "bench"), name
