"""Copies and their removal: only what was copied, and is as it was copied, is removed."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from radrm.errors import BadFile
from radrm.host.snapshots import (
    Note,
    copies,
    files_folder,
    files_of,
    make,
    parse_note,
    read_note,
    remove,
)
from radrm.host.storage.tickets import new_ticket
from tests.host.snapshots.test_listing import tree

NAME = new_ticket()


def copied(folder: Path) -> tuple[str, Note, Path]:
    """A copy of the folder: its place, its note, and where its files are."""
    place = str(folder.parent / "snapshots")
    note = Note(str(folder), "/spool", (NAME,), files_of(str(folder)))
    make(place, NAME, note)
    return place, note, Path(files_folder(place, NAME))


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tree(tmp_path / "code", {"a.py": "one", "pkg/sub/b.py": "two", "run.sh": "#!/bin/sh"})
    (folder / "run.sh").chmod(0o755)
    return folder


def test_a_copy_is_the_same_and_its_own(code: Path) -> None:
    place, note, files = copied(code)
    (code / "a.py").write_text("changed")
    assert (files / "a.py").read_text() == "one" and (files / "pkg/sub/b.py").read_text() == "two"
    assert os.access(files / "run.sh", os.X_OK)
    assert (files / "run.sh").stat().st_mtime_ns == (code / "run.sh").stat().st_mtime_ns
    assert copies(place) == [NAME] and read_note(place, NAME) == note
    for folder in (place, f"{place}/{NAME}", files):
        assert os.stat(folder).st_mode & 0o077 == 0


def test_links_lead_where_they_led(code: Path) -> None:
    """Within the copy to the copy; out of it to what they led to."""
    (code.parent / "data").write_text("data")
    (code / "pkg/in").symlink_to("../a.py")
    (code / "pkg/out").symlink_to("../../data")
    (code / "absolute").symlink_to("/etc/passwd")
    _, _, files = copied(code)
    assert (files / "pkg/in").resolve() == files / "a.py"
    assert os.readlink(files / "pkg/out") == str(code.parent / "data")
    assert os.readlink(files / "absolute") == "/etc/passwd"


def test_a_copy_is_removed_whole(code: Path) -> None:
    (code / "link").symlink_to("a.py")
    place, note, files = copied(code)
    (files / "pkg/sub/__pycache__").mkdir()
    (files / "pkg/sub/__pycache__/b.cpython-311.pyc").write_bytes(b"")
    assert remove(place, NAME, note)
    assert os.listdir(place) == [] and (code / "a.py").exists()


def test_two_submissions_may_remove_one_copy(code: Path) -> None:
    place, note, _ = copied(code)
    assert remove(place, NAME, note) and remove(place, NAME, note)


def test_what_a_job_has_written_stays(code: Path) -> None:
    place, note, files = copied(code)
    tree(files, {"a.py": "the job's", "pkg/result": "model", "new/deep/result": "model"})
    assert not remove(place, NAME, note)
    left = sorted(str(p.relative_to(files)) for p in files.rglob("*") if p.is_file())
    assert left == ["a.py", "new/deep/result", "pkg/result"]
    assert read_note(place, NAME) is None, "it is nobody's copy any more"


def test_removing_follows_no_link_to_the_originals(code: Path) -> None:
    """A file that is the same there, in size and time, must not be taken for the copy."""
    place, note, files = copied(code)
    (files / "pkg/sub/b.py").unlink()
    (files / "pkg/sub").rmdir()
    (files / "pkg/sub").symlink_to(code / "pkg/sub")
    moved = files.rename(files.with_name("elsewhere"))
    files.symlink_to(code)
    remove(place, NAME, note)
    assert (code / "a.py").exists() and moved.exists()
    files.unlink()
    moved.rename(files)
    (files.parent / "note.json").touch()
    remove(place, NAME, note)
    assert (code / "pkg/sub/b.py").read_text() == "two" and not (files / "a.py").exists()


def test_a_file_that_went_meanwhile_is_left_out(code: Path) -> None:
    note = Note(str(code), "/spool", (NAME,), files_of(str(code)))
    (code / "a.py").unlink()
    place = str(code.parent / "snapshots")
    make(place, NAME, note)
    assert not os.path.exists(f"{files_folder(place, NAME)}/a.py")


def test_a_place_of_somebody_else_is_not_used(code: Path) -> None:
    (code.parent / "snapshots").symlink_to(code.parent)
    with pytest.raises(BadFile, match="is no folder of yours"):
        copied(code)


def test_a_copy_that_fails_leaves_nothing(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.copy2", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(BadFile, match=r"No space left on device; nothing was submitted"):
        copied(code)
    assert copies(str(code.parent / "snapshots")) == []


@pytest.mark.parametrize("data", [b"", b"[]", b'{"files": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_note(data: bytes) -> None:
    text = '{"source": "/s", "spool": "/p", "tickets": ["%s"], "files": %s}'
    assert parse_note((text % (NAME, '["a"]')).encode()) is not None
    assert parse_note((text % (NAME, '[["a", 1]]')).encode()) is None
    assert parse_note((text % ("12", "[]")).encode()) is None
    assert parse_note(data) is None
