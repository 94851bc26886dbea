"""`radrm summarize` names what is wrong with the model before what is wrong with its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radrm.cli.commands import estimate as command
from radrm.errors import BadFile


def test_a_module_that_does_not_exist_is_named_before_an_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("make.model").write_text("an earlier one")
    answer = json.dumps({"error": "there is no module 'nope' here"}).encode()
    monkeypatch.setattr(command, "trace", lambda *_, **__: answer)
    with pytest.raises(BadFile, match="there is no module 'nope'"):
        command.summarize("nope:make", "", "", force=False, options={}, as_json=False)
    assert Path("make.model").read_text() == "an earlier one"
