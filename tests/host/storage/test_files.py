from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from radrm.host.storage import files
from radrm.host.storage.files import write_all, write_durably


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o711])
def test_writes_exactly_that_with_exactly_that_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "record"
    mask = os.umask(0o077)
    try:
        write_durably(path, b"new\0", mode)
    finally:
        os.umask(mask)
    assert path.read_bytes() == b"new\0"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir(tmp_path) == ["record"]


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "record"
    target.write_bytes(b"another's")
    path.symlink_to(target)
    write_durably(str(path), b"mine")
    assert target.read_bytes() == b"another's"
    assert path.read_bytes() == b"mine" and not path.is_symlink()


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_failure_leaves_the_old(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record"
    write_durably(path, b"old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_durably(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["record"]


def test_order_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data is on disk before it gets its name, the name before we say so."""
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(fd: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def note_rename(old: str, new: str) -> None:
        steps.append("rename")
        rename(old, new)

    monkeypatch.setattr(files.os, "fsync", note_fsync)
    monkeypatch.setattr(files.os, "rename", note_rename)
    write_durably(tmp_path / "record", b"x")
    assert steps == ["file", "rename", "folder"]


def test_write_all_goes_on_after_a_short_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []

    def three_at_a_time(_: int, data: memoryview) -> int:
        written.append(bytes(data[:3]))
        return len(data[:3])

    monkeypatch.setattr(files.os, "write", three_at_a_time)
    write_all(7, b"0123456789")
    assert b"".join(written) == b"0123456789"
