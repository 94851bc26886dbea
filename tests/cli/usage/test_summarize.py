"""`radrm summarize` names what is wrong with the model before what is wrong with its file. What
commands write to a device leaves it a device: root could rename a file over /dev/null."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from radrm.cli.commands import estimate as command
from radrm.errors import BadFile
from radrm.slurm.commands.sbcast import sbcast


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


def test_a_device_stays_what_it_is(tmp_path: Path) -> None:
    ours, device = os.openpty()
    path, source, link = os.ttyname(device), tmp_path / "source", tmp_path / "link"
    source.write_text("text")
    source.chmod(0o755)
    link.symlink_to(path)
    before = os.stat(path)
    command._write(link, "summary")
    assert sbcast(["--force", "--preserve", str(source), str(link)]) == 0
    after = os.stat(path)
    assert link.is_symlink() and stat.S_ISCHR(after.st_mode) and after.st_mode == before.st_mode
    assert os.read(ours, 1000).startswith(b"summary")
    os.close(ours), os.close(device)
