"""What `radrm doctor` says of radrm's folders, their file systems and the store."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_mock import MockerFixture

from radrm.host.health import places
from radrm.host.health.finding import Finding
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.schema import SCHEMA_VERSION
from radrm.host.storage.store import Store
from tests.host.health.judging import ME, judged

# ------------------------------------------------------------------ places


@pytest.mark.parametrize("system", [False, True])
def test_folders_are_as_a_daemon_makes_them(tmp_path: Path, system: bool) -> None:
    paths = Paths(str(tmp_path / "state"), str(tmp_path / "run"))
    for wanted in places.folders(paths, system):
        judged(places.folder(wanted, ME, False), "ok", "does not exist yet")
        judged(places.folder(wanted, ME, True), "fail", "a daemon runs")
    prepare(paths, system)
    for wanted in places.folders(paths, system):
        judged(places.folder(wanted, ME, True), "ok", f"{wanted.mode:04o}")


@pytest.mark.parametrize(
    ("wanted", "mode", "level", "words"),
    [
        (0o700, 0o700, "ok", "0700"),
        (0o700, 0o500, "fail", "closed to its owner"),
        (0o700, 0o750, "warn", "more open"),
        (0o700, 0o777, "fail", "written by everybody"),
        (0o711, 0o700, "warn", "more closed"),
        (0o1777, 0o1777, "ok", "1777"),
        (0o1777, 0o777, "fail", "written by everybody"),
        (0o1777, 0o1770, "warn", "chmod 1777"),
    ],
)
def test_modes(tmp_path: Path, wanted: int, mode: int, level: str, words: str) -> None:
    path = tmp_path / "x"
    path.mkdir()
    path.chmod(mode)
    judged(places.folder(places.Folder("x", str(path), wanted), ME, True), level, words)


def test_what_is_no_folder_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    judged(places.folder(places.Folder("x", str(path), 0o700), ME, True), "fail", "not a folder")
    path.unlink()
    path.mkdir(0o700)
    judged(places.folder(places.Folder("x", str(path), 0o700), ME + 1, True), "fail", str(ME))


def test_a_link_where_the_daemon_removes_files(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path / "state"), str(tmp_path / "run"))
    prepare(paths, False)
    os.rename(paths.spool, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", paths.spool)
    found = {w.name: places.folder(w, ME, False) for w in places.folders(paths, False)}
    judged(found["spool folder"], "fail", "symbolic link", "remove the link")
    judged(found["store folder"], "ok")


def disk(**given: int) -> Any:
    usual = {"f_bavail": 1 << 20, "f_frsize": 4096, "f_files": 1 << 20, "f_favail": 1 << 19}
    return SimpleNamespace(**{**usual, "f_flag": 0, **given})


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        ({}, "ok", "4.0 GiB"),
        ({"f_bavail": 1024}, "warn", "4 MiB"),
        ({"f_bavail": 0}, "fail", "is full"),
        ({"f_favail": 0}, "fail", "is full"),
        ({"f_favail": 99}, "warn", "99 more files"),
        ({"f_files": 0, "f_favail": 0}, "ok", ""),  # btrfs counts none
        ({"f_flag": os.ST_RDONLY}, "fail", "read-write"),
    ],
)
def test_space(given: dict[str, int], level: str, words: str) -> None:
    judged(places.space("/not/there/yet", lambda _: disk(**given)), level, words)


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw shared:2 master:1 - nfs4 server:/home rw
31 30 8:2 / /home/local\040disk rw - xfs /dev/sdb rw
32 22 0:41 / /mnt rw - autofs systemd-1 rw
33 22 0:42 / /mnt rw - cifs //server/x rw
34 22 0:43 / /tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "level", "words"),
    [
        ("/var/lib/radrm", "ok", "ext4"),
        ("/home/ada/.local/state/radrm", "warn", "nfs4"),
        ("/homeless", "ok", "ext4"),
        ("/home/local disk/radrm", "ok", "xfs"),
        ("/mnt/x", "warn", "cifs"),
        ("/tmp/radrm", "warn", "reboot"),
    ],
)
def test_file_system(
    tmp_path: Path, mocker: MockerFixture, path: str, level: str, words: str
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTS)
    mocker.patch.object(places, "_existing", lambda p: p)
    judged(places.file_system(path, tmp_path), level, words)


def test_the_file_system_of_this_machine_is_found(tmp_path: Path) -> None:
    assert "unknown" not in places.file_system(str(tmp_path / "not" / "there")).finding


# ------------------------------------------------------------------ the store


def test_a_sound_store_is_read_without_a_trace(tmp_path: Path) -> None:
    database = str(tmp_path / "radrm.sqlite")
    judged(places.store(database, ME), "ok", "does not exist yet")
    store = Store(database)
    store._db.execute("INSERT INTO devices VALUES ('a', 'b')")
    before = sorted(os.listdir(tmp_path))
    judged(places.store(database, ME), "ok", "intact")
    assert sorted(os.listdir(tmp_path)) == before
    store.close()
    judged(places.store(database, ME), "ok", "intact")
    assert os.listdir(tmp_path) == ["radrm.sqlite"]
    judged(places.store(database, ME + 1), "ok", f"user {ME}")


def test_a_store_that_is_locked_for_writing_can_be_looked_into(tmp_path: Path) -> None:
    database = str(tmp_path / "radrm.sqlite")
    store = Store(database)
    store._db.execute("BEGIN IMMEDIATE")
    judged(places.store(database, ME), "ok")
    store.close()


def test_damaged_stores(tmp_path: Path) -> None:
    database = tmp_path / "radrm.sqlite"
    Store(str(database)).close()
    whole = database.read_bytes()
    database.write_bytes(b"not a database at all" * 100)
    judged(places.store(str(database), ME), "fail", "damaged", "move it aside")
    database.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    judged(places.store(str(database), ME), "fail", "damaged")
    database.write_bytes(whole[: len(whole) // 2])
    judged(places.store(str(database), ME), "fail", "damaged")


def test_a_store_of_another_version(tmp_path: Path) -> None:
    database = str(tmp_path / "radrm.sqlite")
    Store(database).close()

    def found(version: int) -> Finding:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        return places.store(database, ME)

    for other in (SCHEMA_VERSION - 2, SCHEMA_VERSION + 1):
        judged(found(other), "fail", f"version {other}", "run the radrm that wrote it")
    judged(found(SCHEMA_VERSION), "ok", "intact")
