"""No text of users, files or other programs moves the cursor, forges a line, or changes colours.

`print` is refused by the linter, so what people read goes through `client/text.py` or
`cli/show/styled.py`. This asks every command.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from radrm.cli.listing import commands, of_group
from radrm.cli.main import main
from radrm.cli.show.styled import Styled, show
from radrm.client.text import say, warn

HOSTILE = "\x1b[31mred\x1b]0;title\x07\nradrm: forged\r\u202e\u2028\x9b1A.rad"
FORGED = "radrm: forged"
NAMES = sorted(set(commands()) - {"daemon", "demo", "top", "web", "mcp", "service", "bench"})
"""All but those that serve, or change this machine."""


def printed(monkeypatch: pytest.MonkeyPatch, *argv: str) -> str:
    """What a command prints on both its outputs."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")

    def leave(code: int) -> None:
        raise SystemExit(code)

    with monkeypatch.context() as patched:
        for name in ("stdout", "stderr"):
            patched.setattr(sys, name, out)
        patched.setattr(sys, "stdin", io.StringIO())
        patched.setattr(sys, "argv", ["radrm", *argv])
        patched.setattr(os, "_exit", leave)
        with pytest.raises(SystemExit):
            main()
        out.flush()
        raw: Any = out.buffer
        return str(raw.getvalue().decode("utf-8", "surrogateescape"))


def assert_plain(text: str) -> None:
    assert not [c for c in text if c not in "\n\t" and not c.isprintable()], ascii(text)
    assert not [line for line in text.split("\n") if line.startswith(FORGED)], ascii(text)


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RADRM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_a_command_repeats_no_hostile_word(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    first = (of_group(name) or (name,))[0].split()
    for words in ([HOSTILE], [f"--{HOSTILE}"], [f"--user={HOSTILE}"], ["--since", HOSTILE]):
        assert_plain(printed(monkeypatch, *first, *words))
    assert_plain(printed(monkeypatch, HOSTILE, name))
    assert_plain(printed(monkeypatch, "help", HOSTILE))


@pytest.mark.parametrize("words", [["submit"], ["submit", "--dry-run"], ["estimate"]])
def test_a_job_file_with_a_hostile_name_is_shown_plain(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    Path(HOSTILE).write_text("#!/bin/sh\n#RAD --time=5\n#SBATCH --x\ntrue\n")
    found = printed(monkeypatch, *words, HOSTILE)
    assert "forged" in found
    assert_plain(found)


def test_all_that_people_read_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE, HOSTILE)
    warn(HOSTILE)
    say(HOSTILE, error=True)
    show(Styled(HOSTILE, "bold"))
    said = capsys.readouterr()
    assert said.out.count("\n") == 3 and said.err.count("\n") == 2
    assert_plain(said.out)
    assert_plain(said.err.replace("radrm: ", "", 1))
