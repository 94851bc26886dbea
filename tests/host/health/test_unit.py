"""What `radrm doctor` finds of the service's files and of the code that it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from radrm.host.health import daemon
from radrm.host.service.code import Code
from radrm.host.service.files import UNIT_PATH, files_of, under
from radrm.host.service.ownership import Ownership
from tests.host.health.judging import judged

RADRMD = "/opt/radrm/bin/radrmd"
AGAIN = "sudo /opt/radrm/bin/radrm service install"


@pytest.fixture
def root(tmp_path: Path) -> str:
    for file in files_of(RADRMD):
        path = Path(under(str(tmp_path), file.path))
        path.parent.mkdir(parents=True)
        if file.text is not None:
            path.write_text(file.text)
        else:
            path.symlink_to(file.leads_to or "")
    return str(tmp_path)


def test_files_in_order(root: str, tmp_path: Path) -> None:
    assert daemon.is_installed(root)
    assert not daemon.is_installed(f"{tmp_path}/none")
    judged(daemon.files(root, RADRMD), "ok", "as this release writes them")


def test_files_that_are_not(root: str) -> None:
    judged(daemon.files(root, "/srv/bin/radrmd"), "warn", f"starts {RADRMD}, and this is /srv/bin/")
    path = Path(under(root, UNIT_PATH))
    text = path.read_text()
    path.write_text(text.replace("WatchdogSec=5min", "WatchdogSec=5s"))
    judged(daemon.files(root, RADRMD), "warn", "not as radrm writes it", "--dry-run")
    path.write_text("")
    judged(daemon.files(root, RADRMD), "warn", "not as radrm writes it")
    path.write_text(text)
    Path(under(root, "/usr/local/bin/radrm")).unlink()
    judged(daemon.files(root, RADRMD), "warn", "/usr/local/bin/radrm does not exist", AGAIN)


def test_files_of_another_release(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = files_of(RADRMD)
    later = [type(now[1])(now[1].path, text="# later\n"), *now[2:]]
    monkeypatch.setattr(daemon, "files_of", lambda _: (now[0], *later))
    judged(daemon.files(root, RADRMD), "warn", "radrm.conf is of another release", AGAIN)


def test_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "x.py"
    file.write_text("")
    file.chmod(0o644)
    monkeypatch.setattr(daemon, "code_of", lambda _: Code((), (str(file),)))
    mine = frozenset({0, os.getuid()})
    judged(daemon.code(RADRMD, Ownership(mine)), "ok", "only root can change it")
    file.chmod(0o664)
    judged(
        daemon.code(RADRMD, Ownership(mine)), "fail", "and root runs its code", f"chmod go-w {file}"
    )
    file.chmod(0o644)
    nobody = Ownership(frozenset({4_000_000}))
    judged(daemon.code(RADRMD, nobody), "fail", "belongs to user 0", "docs/dgx.md")

    def closed(path: str) -> os.stat_result:
        raise PermissionError(13, "Permission denied", path)

    judged(daemon.code(RADRMD, Ownership(mine, closed)), "ok", "sudo radrm doctor")


def test_a_radrm_without_its_script(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"{root}/bin/python3")
    judged(daemon.code(f"{root}/bin/radrmd"), "warn", "cannot be read")
