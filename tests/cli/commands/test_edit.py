"""`radrm edit`: which jobs, and what of them changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import radrm.client.connection
from radrm.cli.commands.edit import EDIT_PARAMETERS, edit
from radrm.errors import UsageError
from radrm.jobfile.arguments import parse
from radrm.jobfile.options import SHOWN
from tests.cli.fakes import Script
from tests.cli.runner import invoke


def run(*words: str) -> int:
    given = parse(EDIT_PARAMETERS, words, "edit")
    assert given is not None
    return edit(**given)


RESULT: dict[str, Any] = {"id": 15, "label": "12_3", "name": "sweep", "state": "RUNNING"}


def test_it_sends_the_options_as_they_were_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Script(edit=[[RESULT | {"error": None}]])
    monkeypatch.setattr(radrm.client.connection, "Client", lambda: client)
    assert run("12", "--priority", "5", "sweep-*", "--time=2:00:00", "--requeue", "--after=7") == 0
    assert capsys.readouterr().out == "Changed job 12_3 (sweep)\n"
    options = {"priority": "5", "time": "2:00:00", "requeue": True, "after": ["7"]}
    assert client.asked == [
        ("edit", {"jobs": ["12", "sweep-*"], "options": options, "folders": True})
    ]
    run("12", "--json", "--priority=-5")
    assert json.loads(capsys.readouterr().out) == [RESULT | {"error": None}]


def test_the_help_has_every_option_that_can_be_edited() -> None:
    text = invoke("edit", "--help").stdout
    lines = [line.lstrip(" *") for line in text.splitlines()]
    named = {line[2:].replace("=", " ").split()[0] for line in lines if line.startswith("--")}
    fixed = {"array", "at-once", "max-fails", "param", "params"}
    fixed |= {"hold", "interactive", "snapshot"}
    editable = {option.name for option in SHOWN} - fixed
    assert named == editable | {"json"}
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no job named"),
        (["--priority=5"], "no job named"),
        (["12"], "nothing to change"),
        (["12", "--array=0-3"], "an array stays as it was submitted"),
        (["12", "--hold"], "radrm hold"),
        (["12", "--json=1"], "--json takes no value"),
        (["12", "--prioritty=5"], "did you mean --priority?"),
        (["12", "--wait"], "unknown option '--wait'"),
        (["12", "-p", "5"], "unknown option '-p'"),
        (["12", "-J", "name"], "here it is --name=NAME"),
        (["12", "--priority=x"], "--priority: 'x' is not a whole number"),
        (["12", "--priority=1", "--priority=2"], "--priority is given twice"),
        (["12", "--mig-profile=1g.5gb", "--collocation=mps"], "does not go with"),
        (["12", "--elastic=1-2"], "unknown option '--elastic=1-2'; here it is --gpus=MIN-MAX"),
        (["12", "--gpus=4-2"], "--gpus: '4-2' has the larger value first; write 2-4"),
        (["12", "--snapshot"], "--snapshot is for jobs that are submitted; leave it out"),
        (["12", "--weight=0"], "--weight: '0' is not a weight"),
        (["12", "--due=fri"], "--due: 'fri' has no time of day; write 2030-01-31T18:00"),
    ],
)
def test_bad_edits(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(*argv)
    assert str(caught.value).startswith(("command line: ", "edit: "))
    assert message in str(caught.value)
