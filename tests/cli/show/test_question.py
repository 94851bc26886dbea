"""A question before a command touches everything: asked in a real terminal, refused without one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import daemons as forks

ALL = [["drain"], ["mps", "stop"]]
"""Commands that act on the whole server if nothing is named."""


class Terminal:
    """`radrm` with a terminal of its own; no daemon runs, so what is not asked exits with 3."""

    def __init__(self, home: Path, words: list[str]) -> None:
        self.mine, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "radrm.cli.main", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "RADRM_HOME": str(home), "COLUMNS": "100"},
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # the session's own
        )
        os.close(theirs)
        self.said = ""

    def until(self, words: str) -> None:
        while words not in self.said:
            part = self._read()
            assert part, f"it ended without {words!r}: {self.said!r}"

    def answer(self, typed: str) -> tuple[int, list[str]]:
        """Type this at the question. Returns the exit code and the lines after the question."""
        self.until("[y/N] ")
        os.write(self.mine, typed.encode())
        while self._read():
            pass
        os.close(self.mine)
        after = self.said.partition("[y/N] ")[2].replace("^C", "").replace("^D", "")
        lines = [line.strip("\b \r") for line in after.removeprefix(typed.strip()).splitlines()]
        return self.process.wait(60), [line for line in lines if line]

    def _read(self) -> str:
        try:
            part = os.read(self.mine, 4096).decode()
        except OSError:  # the last process has closed its end
            return ""
        self.said += part
        return part


@pytest.mark.parametrize(
    ("words", "typed", "code"),
    [
        (ALL[1], "n\n", 1),
        *((ALL[0], typed, 1) for typed in ("\n", "what?\n", "\x04")),
        (ALL[0], "\x03", 130),
    ],
)
def test_any_answer_but_yes_changes_nothing_and_says_so(
    tmp_path: Path, words: list[str], typed: str, code: int
) -> None:
    assert Terminal(tmp_path, words).answer(typed) == (code, ["radrm: nothing was changed"])


def test_yes_goes_on(tmp_path: Path) -> None:
    code, (line,) = Terminal(tmp_path, ["drain"]).answer("Yes\n")
    assert code == 3 and "no radrm daemon" in line


@pytest.mark.parametrize("words", ALL)
def test_without_a_terminal_all_is_touched_only_by_who_says_yes(
    tmp_path: Path, words: list[str]
) -> None:
    def run(*more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "RADRM_HOME": str(tmp_path)}
        return forks.run([*words, *more], environment, tmp_path)

    refused = run()
    assert refused.returncode == 2 and "--yes" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert run("--yes").returncode == 3, "it went on to the daemon"
