"""The tutorial is true: its commands are run, in order, as they stand there."""

from __future__ import annotations

import re

import pytest

from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tools.transcript import Shell, files_and_commands, rewritten, run

TUTORIAL = REPOSITORY / "docs" / "tutorial.md"


@pytest.mark.nightly
@pytest.mark.daemon
def test_a_days_work_goes_as_the_tutorial_says(home: DaemonHome) -> None:
    text = TUTORIAL.read_text()
    shell = Shell(home.work, home.environment)
    try:
        ran = run(text, shell)
    finally:
        shell.close()
        driver = home.driver()
        driver.ask("quit")
        driver.close()
    failed = [each.command for each in ran if each.code]
    assert failed == []
    said = {each.command: each.output for each in ran}
    assert "Traceback" not in "".join(said.values())
    assert said["radrm status --all --limit 4"].startswith(
        "22 completed, 1 failed, 1 timeout, 2 cancelled"
    )
    assert said["cat report.txt"] == "18"
    assert "ValueError" in said["radrm logs 1_13"]
    assert "38.0G" in said["radrm explain large"]
    talk = said["radrm explain talk | head -n 2"].splitlines()
    expected = re.fullmatch(r"  expected .* to .* \(declared\); due .*: in time", talk[1])
    assert expected or "RUNNING" not in talk[0], "it starts later on a slow machine"
    assert "warning: it is due in" in said["radrm edit talk --due=+3m --weight=2"]
    assert "oom" in said["radrm explain greedy"]


def test_rewriting_changes_nothing_but_outputs() -> None:
    text = TUTORIAL.read_text()
    commands = [command for name, command in files_and_commands(text) if name is None]
    assert len(commands) > 20

    class Nothing:
        output = ""

    emptied = rewritten(text, [Nothing() for _ in commands])
    assert [c for n, c in files_and_commands(emptied) if n is None] == commands
    assert [n for n, _ in files_and_commands(emptied) if n] == ["sweep.rad", "report.rad"]
