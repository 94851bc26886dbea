"""The service's files: rendered, and told apart from those that somebody has edited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.errors import Refused
from radrm.host.service.files import (
    COMMAND_PATH,
    TMPFILES_PATH,
    UNIT_PATH,
    State,
    difference,
    files_of,
    is_unchanged,
    state_of,
    under,
    unit,
)
from tests.examples import some

RADRMD = "/opt/radrm/bin/radrmd"
UNIT = files_of(RADRMD)[0]


@pytest.fixture
def root(tmp_path: Path) -> str:
    for path in (UNIT_PATH, TMPFILES_PATH, COMMAND_PATH):
        os.makedirs(os.path.dirname(under(str(tmp_path), path)))
    return str(tmp_path)


def put(root: str, text: str) -> None:
    Path(under(root, UNIT_PATH)).write_text(text)


def test_the_unit_starts_this_radrm() -> None:
    text = unit("/srv/venv/bin/radrmd")
    assert "\nExecStart=/srv/venv/bin/radrmd\n" in text
    assert "@" not in text.replace("[@", "")


@pytest.mark.parametrize(
    ("radrmd", "link"),
    [
        (RADRMD, "/opt/radrm/bin/radrm"),
        ("/usr/local/bin/radrmd", None),
        ("/usr/bin/radrmd", None),
    ],
)
def test_a_link_makes_the_command_known(radrmd: str, link: str | None) -> None:
    found = {file.path: file for file in files_of(radrmd)}
    expected = [UNIT_PATH, TMPFILES_PATH, *([COMMAND_PATH] if link else [])]
    assert list(found) == expected
    if link:
        assert found[COMMAND_PATH].leads_to == link


def test_states(root: str) -> None:
    assert state_of(UNIT, root) is State.NEW
    assert difference(UNIT, root)[0].endswith("radrmd.service (now)")
    put(root, unit(RADRMD))
    assert state_of(UNIT, root) is State.SAME
    assert difference(UNIT, root) == []
    put(root, unit("/srv/elsewhere/bin/radrmd"))
    assert state_of(UNIT, root) is State.OLDER
    put(root, unit(RADRMD).replace("RestartSec=5s", "RestartSec=9s"))
    assert state_of(UNIT, root) is State.EDITED
    assert {"-RestartSec=9s", "+RestartSec=5s"} <= set(difference(UNIT, root))
    put(root, "")
    assert state_of(UNIT, root) is State.EDITED


def test_a_mask_is_an_edit(root: str) -> None:
    os.symlink("/dev/null", under(root, UNIT_PATH))
    assert state_of(UNIT, root) is State.EDITED
    assert "-a link to /dev/null" in difference(UNIT, root)


def test_a_link_to_another_radrm_is_an_edit(root: str) -> None:
    link = files_of(RADRMD)[2]
    os.symlink("/home/anna/bin/radrm", under(root, COMMAND_PATH))
    assert state_of(link, root) is State.EDITED


def test_what_is_no_file(root: str) -> None:
    os.mkdir(under(root, UNIT_PATH))
    with pytest.raises(Refused, match="no file that radrm knows"):
        state_of(UNIT, root)


def test_a_text_that_is_no_utf8_is_an_edit(root: str) -> None:
    Path(under(root, UNIT_PATH)).write_bytes(b"\xff\xfe")
    assert state_of(UNIT, root) is State.EDITED
    difference(UNIT, root)


@given(at=st.integers(0, 10_000), character=st.characters(codec="utf-8"))
@settings(max_examples=some(50))
def test_any_edit_is_noticed(at: int, character: str) -> None:
    """One character put in anywhere: the file is no longer proven ours."""
    text = unit(RADRMD)
    at = at % (len(text) + 1)
    assert is_unchanged(text)
    assert not is_unchanged(text[:at] + character + text[at:])
