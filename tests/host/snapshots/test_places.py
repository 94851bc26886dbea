"""Copies and their removal: only what was copied, and is as it was copied, is removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.errors import BadFile
from radrm.host.snapshots.listing import files_of
from radrm.host.snapshots.places import (
    LINK,
    Note,
    copies,
    files_folder,
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
    files = files_of(str(folder))
    rows = tuple((f.path, LINK if f.link else f.size, f.changed_ns) for f in files)
    note = Note(str(folder), "/spool", (NAME,), rows)
    make(place, NAME, note, files)
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
    remove(place, NAME, note)
    assert (code / "pkg/sub/b.py").read_text() == "two"
    moved = files.rename(files.with_name("elsewhere"))
    files.symlink_to(code)
    remove(place, NAME, note)
    assert (code / "a.py").exists() and moved.exists()


def test_a_file_that_went_meanwhile_is_left_out(code: Path) -> None:
    files = files_of(str(code))
    (code / "a.py").unlink()
    place = str(code.parent / "snapshots")
    make(place, NAME, Note(str(code), "/spool", (NAME,), ()), files)
    assert not os.path.exists(f"{files_folder(place, NAME)}/a.py")


def test_a_place_of_somebody_else_is_not_used(code: Path) -> None:
    (code.parent / "snapshots").symlink_to(code.parent)
    with pytest.raises(BadFile, match="is no folder of yours"):
        copied(code)


@pytest.mark.parametrize(
    "files",
    ['[["../x", 1, 2]]', '[["/etc/passwd", 1, 2]]', '[["a/../../x", 1, 2]]', '[["a", "1", 2]]'],
)
def test_a_note_names_nothing_outside_its_copy(files: str) -> None:
    text = '{"version": 1, "source": "/s", "spool": "/p", "tickets": ["%s"], "files": %s}'
    assert parse_note((text % (NAME, '[["a", 1, 2]]')).encode()) is not None
    assert parse_note((text % (NAME, files)).encode()) is None
    assert parse_note((text % ("12", "[]")).encode()) is None
