"""A rollback is refused in one line, and nothing is written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from radrm import __version__
from radrm.errors import StoreError
from radrm.host.attempts import folder as attempts
from radrm.host.home import Home
from radrm.host.newer import refuse_newer, store_version
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.schema import SCHEMA_VERSION


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A home in which a daemon has worked."""
    paths = Paths(str(tmp_path / "home"), str(tmp_path / "home/run"))
    prepare(paths, False)
    Home(paths, False).open_store().close()
    folder = Path(paths.attempts, "17")
    folder.mkdir()
    attempts.write_record(str(folder), attempts.LAUNCH, {"job_id": 17})
    return paths


def tree(root: str) -> dict[str, tuple[object, ...]]:
    """Name, kind, size, time and content of everything in a home."""
    found = {}
    for path in sorted(Path(root).rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
    return found


def newer_store(paths: Paths) -> None:
    with sqlite3.connect(paths.database) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()


def newer_marker(paths: Paths) -> None:
    Path(paths.state, "radrm-home.json").write_text('{"version": 2, "folders": {}}')


def newer_attempt(paths: Paths) -> None:
    Path(paths.attempts, "17", attempts.EXIT).write_text('{"version": 2, "code": 0}')


@pytest.mark.parametrize(
    "make, what, version",
    [
        (newer_store, "store/radrm.sqlite", SCHEMA_VERSION + 1),
        (newer_marker, "radrm-home.json", 2),
        (newer_attempt, "attempts/17/exit.json", 2),
    ],
)
def test_what_a_newer_radrm_wrote_is_refused(
    paths: Paths, make: object, what: str, version: int
) -> None:
    refuse_newer(paths)
    make(paths)
    before = tree(paths.state)
    with pytest.raises(StoreError) as refused:
        refuse_newer(paths)
    line = str(refused.value)
    assert f"{paths.state}/{what}" in line and f"(version {version}; " in line
    assert f"radrm {__version__}, which reads up to version {version - 1}" in line
    assert "nothing is changed" in line and "radrm help dgx" in line and "\n" not in line
    assert tree(paths.state) == before


def test_the_daemon_writes_nothing_into_the_home_of_a_newer_one(paths: Paths) -> None:
    """Not even a folder, a lock's file, or a log of SQLite's."""
    newer_store(paths)
    os.rmdir(paths.progress)
    before = tree(paths.state)
    done = subprocess.run(
        [sys.executable, "-m", "radrm.cli.main", "daemon", "--gpus", "sim:1xA100-40GB"],
        env={**os.environ, "RADRM_HOME": paths.state},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0 and "is of a newer radrm" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert tree(paths.state) == before


def test_what_is_no_store_has_no_version(tmp_path: Path) -> None:
    path = tmp_path / "store"
    assert store_version(str(path)) is None
    for content in (b"", b"SQLite format 3\0", b"x" * 200):
        path.write_bytes(content)
        assert store_version(str(path)) is None
    os.remove(path)
    os.mkfifo(path)
    assert store_version(str(path)) is None, "and no reader hangs"


def test_a_new_store_has_its_version_in_the_file_at_once(tmp_path: Path) -> None:
    """Another radrm's daemon looks there, also after a kill of this one."""
    paths = Paths(str(tmp_path / "home"), str(tmp_path / "home/run"))
    prepare(paths, False)
    store = Home(paths, False).open_store()
    assert store_version(paths.database) == SCHEMA_VERSION
    store.close()
