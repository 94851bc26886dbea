"""README and docs/index.md are true: their commands are run, in order, as they stand there."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from radrm.errors import DeviceError
from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tests.waiting import wait_until
from tools.transcript import Shell, rewritten, run

VARYING = re.compile(r"ticket \w+|\d|, it was [A-Z]+$")
SAME = ("Submitted", "Cancelled", "Changed", "epoch", "exit code")
"""What begins lines that are alike on every machine, but for digits, tickets and, where it is slow,
the state of a job."""


def fixed(text: str) -> list[str]:
    """The lines of a page that are alike in every run; of those of a training one, for a slow
    machine prints fewer."""
    lines = [line for line in text.splitlines() if line.startswith(SAME)]
    alike = [" ".join(VARYING.sub("", line).split()) for line in lines]
    pairs = pairwise(["", *alike])
    return [line for before, line in pairs if line != before or not line.startswith("epoch")]


def gone(home: DaemonHome) -> bool:
    """End the simulated driver. False while jobs are on its devices."""
    driver = home.driver()
    try:
        driver.ask("quit")
    except DeviceError:
        return False
    finally:
        driver.close()
    return True


@pytest.mark.daemon
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_commands_of_the_page_do_what_it_shows(home: DaemonHome, page: str) -> None:
    text = (REPOSITORY / page).read_text()
    shell = Shell(home.work, home.environment)
    try:
        ran = run(text, shell)
    finally:
        shell.close()
        wait_until(lambda: gone(home), "the last jobs' end")
    assert [each.command for each in ran if each.code] == []
    assert "Traceback" not in "".join(each.output for each in ran)
    assert fixed(rewritten(text, ran)) == fixed(text)
    assert len(fixed(text)) >= 2
