"""The folders in which the daemon and launchers speak, on a real file system."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from radrm.host.attempts.elastic import acting, names
from radrm.host.attempts.elastic.folders import Done, ElasticFolders, Step, act
from tests.standins.mounted import mounted, requires_mounts
from tests.waiting import wait_until

USER = 12345
"""A user that this machine does not know."""


@pytest.fixture
def folders() -> Iterator[ElasticFolders]:
    with tempfile.TemporaryDirectory(prefix="radrm-e-") as place:
        os.chmod(place, 0o711)  # another user passes through
        found = ElasticFolders(f"{place}/elastic", give_away=os.geteuid() == 0)
        yield found
        found.close()


def made(folders: ElasticFolders, serial: int = 7) -> Path:
    return Path(folders.make(serial, USER, USER, {"placement-1.json": "{}"}))


def owner() -> int:
    return USER if os.geteuid() == 0 else os.geteuid()


def test_a_folder_is_its_users_alone_with_its_first_files(folders: ElasticFolders) -> None:
    folder = made(folders)
    assert str(folder) == folders.of(7)
    for path, mode in ((folder, 0o700), (folder / "placement-1.json", 0o600)):
        found = path.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (owner(), mode)


def test_the_first_one_decides_and_a_later_text_changes_nothing(folders: ElasticFolders) -> None:
    folder = made(folders)
    assert act(str(folder), [("keep", "begun-2", "ours"), ("read", "begun-2")]) == [
        {"new": True},
        {"text": "ours"},
    ]
    again = act(str(folder), [("keep", "begun-2", "theirs"), ("read", "begun-2")])
    assert again == [{"new": False}, {"text": "ours"}]
    assert (folder / "begun-2").stat().st_uid == owner()
    assert act(str(folder), [("put", "shares.json", "a"), ("put", "shares.json", "b")]) == [{}, {}]
    assert (folder / "shares.json").read_text() == "b"
    assert sorted(p.name for p in folder.iterdir()) == [
        "begun-2",
        "placement-1.json",
        "shares.json",
    ], "no draft is left"


def test_what_is_asked_about_one_attempt_is_done_in_that_order(folders: ElasticFolders) -> None:
    folder = made(folders)
    done: list[object] = []
    for number in range(6):
        folders.act(7, [("put", "shares.json", str(number))], done.append)
    wait_until(lambda: len(done) == 6, "all of it")
    assert (folder / "shares.json").read_text() == "5"


def test_files_of_the_past_are_dropped(folders: ElasticFolders) -> None:
    folder = made(folders)
    assert act(str(folder), [("drop", "placement-1.json", "begun-1")]) == [{}]
    assert list(folder.iterdir()) == []


def test_what_a_user_may_put_there_is_told_and_never_followed(folders: ElasticFolders) -> None:
    folder = made(folders)
    secret = folder.parent.parent / "secret"
    secret.write_text("root's")
    (folder / "link").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "long").write_bytes(b"x" * (names.MOST_BYTES + 1))
    (folder / "bytes").write_bytes(b"\xff")
    if os.geteuid() == 0:
        for name in ("long", "bytes", "pipe", "folder"):
            os.chown(folder / name, USER, USER)
    words = ("link", "pipe", "folder", "long", "bytes", "none")
    found = act(str(folder), [("read", word) for word in words])
    *errors, read, missing = found
    assert [list(each) for each in errors] == [["error"]] * 4
    assert errors[3]["error"] == "long is longer than 256 KiB"
    assert (read, missing) == ({"text": "\ufffd"}, {"text": None})
    assert act(str(folder), [("put", "folder", "x")]) == [{"error": "Is a directory"}]
    assert act(str(folder), [("put", "link", "x")]) == [{}]
    assert secret.read_text() == "root's"


def test_a_folder_that_is_gone_or_closed_is_an_answer(folders: ElasticFolders) -> None:
    gone = act(folders.of(7), [("read", "a"), ("clear",)])
    assert gone == [{"error": "No such file or directory"}] * 2


@pytest.mark.parametrize("silent", [True, False])
def test_what_its_user_mounts_over_it_is_not_entered(folders: ElasticFolders, silent: bool) -> None:
    """A FUSE file system can report any owner."""
    requires_mounts()
    folder = made(folders)
    with mounted(folder, silent):
        found = act(str(folder), [("read", "a"), ("clear",)])
    assert found == [{"error": "a file system is mounted there"}] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_it_acts_with_no_more_rights_than_the_user_has(folders: ElasticFolders) -> None:
    folder = made(folders)
    (folder / "roots").write_text("x")
    (folder / "roots").chmod(0o600)
    assert act(str(folder), [("read", "roots")]) == [{"error": "Permission denied"}]
    folder.chmod(0)
    assert act(str(folder), [("read", "begun-2")]) == [{"error": "Permission denied"}]


def test_a_program_that_does_not_answer_is_no_answer(
    folders: ElasticFolders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.py"
    monkeypatch.setattr(acting, "__file__", str(other))
    for program in (
        "",
        "print('[1]')",
        "print('{')",
        "import os\nwhile 1: os.write(1, b'x' * 65536)",
    ):
        other.write_text(program)
        assert act(str(made(folders, 1 + len(program))), [("read", "a")]) is None


# ------------------------------------------------------------------ the end


def test_everything_of_an_ended_attempt_is_removed(folders: ElasticFolders) -> None:
    folder = made(folders)
    deep = folder
    for _ in range(50):
        deep = deep / "d"
        deep.mkdir()
    (deep / "file").write_text("x")
    (folder / "link").symlink_to("/")
    if os.geteuid() == 0:
        for path, _, files in os.walk(folder):
            for name in (path, *(os.path.join(path, file) for file in files)):
                os.chown(name, USER, USER)
    (folder / "d").chmod(0)
    folders.remove(7)
    wait_until(lambda: not folder.exists(), "the removal")
    assert os.path.isdir("/")
    folders.remove(7)  # it is gone


def test_the_folders_of_a_user_that_take_long_delay_nobody_elses_answer(
    folders: ElasticFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, live = made(folders, 3), made(folders, 7)
    go = threading.Event()

    def slow(folder: str, steps: Sequence[Step]) -> Done | None:
        if steps[0] == ("clear",):
            go.wait()
        return act(folder, steps)

    monkeypatch.setattr("radrm.host.attempts.elastic.folders.act", slow)
    folders.remove(3)
    done: list[object] = []
    folders.act(7, [("read", "placement-1.json")], done.append)  # in the same thread as 3
    wait_until(lambda: bool(done), "the answer")
    assert done == [[{"text": "{}"}]] and ended.exists()
    go.set()
    wait_until(lambda: not ended.exists(), "the removal")
    assert live.exists()


def test_whether_there_is_a_folder_is_told_without_a_look_at_it(
    folders: ElasticFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user may have mounted a file system there that does not answer."""
    made(folders)
    monkeypatch.setattr(os, "stat", Mock(side_effect=AssertionError))
    assert folders.exists(7) and not folders.exists(8)


def test_the_next_daemon_removes_what_no_live_attempt_has(folders: ElasticFolders) -> None:
    live, ended = made(folders, 7), made(folders, 8)
    other = Path(folders.path) / "other"
    other.mkdir()
    folders.remove_left({7})
    wait_until(lambda: not ended.exists(), "the removal")
    assert live.exists() and other.exists()


def test_more_files_than_one_look_removes_take_several(
    folders: ElasticFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(folders)
    for number in range(30):
        (folder / str(number)).write_text("x")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert acting._remove_below(descriptor, [10], 5) == 1
        assert len(list(folder.iterdir())) == 21
        assert acting._remove_below(descriptor, [100], 5) == 0
    finally:
        os.close(descriptor)
    assert list(folder.iterdir()) == []


def test_an_encoded_file_can_be_decoded() -> None:
    assert names.decode(names.encode({"generation": 3})) == {"version": 1, "generation": 3}
    for text, why in (
        ("{", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        (json.dumps({"version": 2}), "it has not version 1, which this radrm reads"),
        (json.dumps({"version": True}), "it has not version 1, which this radrm reads"),
        ("[" * 100_000, "it is not JSON"),
        (" " * (names.MOST_BYTES + 1), "it is longer than 256 KiB"),
    ):
        assert names.decode(text) == why
