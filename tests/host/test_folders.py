"""Names in a folder are looked at, and nothing that is mounted over one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from radrm.host.folders import OpenFolder
from tests.standins.mounted import mounted, requires_mounts

READING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


def test_what_lies_there_is_seen_and_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "other").write_text("more")
    with OpenFolder(str(tmp_path)) as folder:
        assert folder.stat("file").st_size == 4
        assert read(folder.open("file", READING)) == b"text"
        assert Path(folder.path, "file").read_text() == "text"
        with folder.below("below") as below:
            assert read(below.open("other", READING)) == b"more"
        opened = folder.open_file("file")
        assert opened[1].st_size == 4 and read(opened[0]) == b"text"
        with pytest.raises(FileNotFoundError):
            folder.stat("missing")
        assert folder.open_file("missing") is None


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        (tmp_path / f"to-{name}").symlink_to(name)
    with OpenFolder(str(tmp_path)) as folder:
        for reach in (lambda: folder.open("to-file", READING), lambda: folder.below("to-folder")):
            with pytest.raises(OSError) as caught:
                reach()
            assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
        assert folder.open_file("to-file") is None
        assert folder.stat("to-file").st_ino != folder.stat("file").st_ino
    with pytest.raises(OSError):
        OpenFolder(str(tmp_path / "to-folder"))
    OpenFolder(str(tmp_path / "to-folder"), links=True).close()


def test_only_a_file_with_one_name_is_opened_as_one(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("")
    os.link(tmp_path / "one", tmp_path / "two")
    os.mkfifo(tmp_path / "pipe")
    with OpenFolder(str(tmp_path)) as folder:
        assert [folder.open_file(name) for name in ("one", "pipe", ".")] == [None] * 3


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_is_mounted_over_a_name_is_not_asked(
    tmp_path: Path, make: Callable[[Path], None], silent: bool
) -> None:
    requires_mounts()
    make(tmp_path / "name")
    before = set(os.listdir("/proc/self/fd"))
    with OpenFolder(str(tmp_path)) as folder, mounted(tmp_path / "name", silent):
        for reach in (folder.stat, folder.below, lambda name: folder.open(name, READING)):
            with pytest.raises(OSError) as caught:
                reach("name")
            assert caught.value.errno == errno.EXDEV
        assert folder.open_file("name") is None
    assert set(os.listdir("/proc/self/fd")) <= before


def test_the_folder_itself_may_be_a_mount() -> None:
    with OpenFolder("/proc") as folder:
        assert read(folder.open("stat", READING))
