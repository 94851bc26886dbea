"""A log file is shown whole and live, and nothing but a log is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radrm.client.tail import Tail, harmless, last_lines
from radrm.errors import Refused

ME = os.geteuid()
OTHER = ME + 1
PER_TEST = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class Reader:
    """A tail, all it has written, and all it has remarked."""

    def __init__(self, path: Path, uid: int = ME) -> None:
        self.written: list[bytes] = []
        self.said: list[str] = []
        self.tail = Tail(str(path), uid, self.said.append)

    def read(self) -> bytes | None:
        self.written.clear()
        return b"".join(self.written) if self.tail.copy_new(self.written.append) else None


def test_what_is_new_is_copied_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    reader = Reader(log)
    assert reader.read() is None, "it is not there yet"
    log.write_bytes(b"one\n\xff\0")
    assert reader.read() == b"one\n\xff\0"
    assert reader.read() == b""
    with log.open("ab") as file:
        file.write(b"two" * 100_000)
    assert reader.read() == b"two" * 100_000
    assert max(map(len, reader.written)) <= 64 * 1024, "in pieces"


def test_a_file_that_is_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a long beginning\n")
    reader = Reader(log)
    reader.read()
    log.write_bytes(b"new\n")
    assert reader.read() == b"new\n"
    assert "cut short" in reader.said[0]


def test_a_file_that_is_replaced_is_finished_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    reader = Reader(log)
    reader.read()
    with log.open("ab") as file:
        file.write(b"two\n")
    log.rename(tmp_path / "log.1")
    log.write_bytes(b"three\n")
    assert reader.read() == b"two\nthree\n"
    assert "replaced" in reader.said[0]


def test_a_file_that_is_removed_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    reader = Reader(log)
    reader.read()
    log.unlink()
    assert reader.read() == b""


@PER_TEST
@given(st.lists(st.binary(max_size=9).map(lambda b: b + b"\n"), max_size=30), st.integers(0, 40))
@pytest.mark.parametrize("unfinished", [b"", b"unfinished"])
def test_the_last_lines(tmp_path: Path, unfinished: bytes, lines: list[bytes], wanted: int) -> None:
    log = tmp_path / "log"
    whole = b"".join(lines) + unfinished
    log.write_bytes(whole)
    reader = Reader(log)
    reader.tail.skip_to_last(wanted)
    there = whole.splitlines(keepends=True) if b"\r" not in whole else _lines(whole)
    assert reader.read() == b"".join(there[len(there) - min(wanted, len(there)) :])
    reader.tail.close()


def _lines(data: bytes) -> list[bytes]:
    """Split at newlines only, as `tail` does."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def test_the_last_lines_of_a_large_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % i for i in range(100_000)))
    reader = Reader(log)
    reader.tail.skip_to_last(20_000)
    data = reader.read()
    assert data.startswith(b"line 80000\n") and data.endswith(b"line 99999\n")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket_link(path: Path) -> None:
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("make", [make_fifo, make_folder, make_link_to_device, make_socket_link])
def test_what_is_no_regular_file_is_never_opened(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    make(log)
    opened: list[int] = []
    real = os.open

    def watched(path: Any, flags: int, *more: Any) -> int:
        handle = real(path, flags, *more)
        if not flags & os.O_PATH:
            opened.append(os.fstat(handle).st_mode)
        return handle

    monkeypatch.setattr(os, "open", watched)
    with pytest.raises(Refused, match="not a regular file"):
        Reader(log).read()
    assert all(stat.S_ISREG(mode) for mode in opened)


def test_links_are_followed_with_the_readers_own_rights(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"text\n")
    (tmp_path / "log").symlink_to("real")
    assert Reader(tmp_path / "log").read() == b"text\n"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Refused, match="cannot read the log"):
        Reader(tmp_path / "loop").read()


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_anothers_log_cannot_command_a_terminal(pieces: list[bytes]) -> None:
    written: list[bytes] = []
    write = harmless(written.append)
    for piece in pieces:
        write(piece)
    text = b"".join(written).decode()
    assert all(c in "\n\r\t" or c.isprintable() for c in text)


def test_harmless_text_stays_as_it_is_however_it_is_cut() -> None:
    written: list[bytes] = []
    write = harmless(written.append)
    for byte in "épôque 1\t50%\r\n".encode():
        write(bytes([byte]))
    assert b"".join(written).decode() == "épôque 1\t50%\r\n"


@pytest.mark.parametrize(
    ("data", "most", "expected"),
    [
        (b"", 5, []),
        (b"one\ntwo\n\n  \nthree", 2, ["two", "three"]),
        (b"a\n 1%\r 50%\r100%\r\nb\x1b[2J\n", 5, ["a", "100%", "b\ufffd[2J"]),
        (b"x" * 70_000 + b"\nlast\n", 1, ["last"]),
        (b"\xff\n", 1, ["\ufffd"]),
    ],
)
def test_the_last_lines_are_plain_and_bounded(
    tmp_path: Path, data: bytes, most: int, expected: list[str]
) -> None:
    (tmp_path / "log").write_bytes(data)
    assert (last_lines(str(tmp_path / "log"), ME, most) or []) == expected


def test_a_log_that_is_missing_or_cannot_be_read(tmp_path: Path) -> None:
    assert last_lines(str(tmp_path / "none"), ME, 5) is None
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="not a regular file"):
        last_lines(str(tmp_path / "pipe"), ME, 5)


def test_ones_own_log_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "file").write_text("mine\n")
    (tmp_path / "folder").symlink_to(tmp_path / "scratch")
    (tmp_path / "folder" / "log").symlink_to("file")
    assert last_lines(str(tmp_path / "folder" / "log"), ME, 5) == ["mine"]


@pytest.mark.parametrize("leads", ["to the file", "by a link", "by a folder", "to a hard link"])
def test_the_log_of_another_user_leads_to_no_file_but_his(tmp_path: Path, leads: str) -> None:
    """His path may lead to what the reader alone can read."""
    secret = tmp_path / "mine" / "log"
    secret.parent.mkdir()
    secret.write_text("secret\n")
    log = tmp_path / "his" / "log"
    if leads == "by a folder":
        (tmp_path / "his").symlink_to("mine")
    else:
        log.parent.mkdir()
    if leads == "by a link":
        log.symlink_to(secret)
    elif leads == "to a hard link":
        os.link(secret, log)
    elif leads == "to the file":
        log = secret
    reader = Reader(log, OTHER)
    for read in (reader.read, lambda: last_lines(str(log), OTHER, 5)):
        with pytest.raises(Refused, match="leads to a file of"):
            read()
    assert not reader.written


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_the_log_of_another_user_is_read_if_it_is_his(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("his\n")
    os.chown(log, OTHER, -1)
    reader = Reader(log, OTHER)
    assert last_lines(str(log), OTHER, 5) == ["his"] and reader.read() == b"his\n"
    log.unlink()
    log.write_text("secret\n")  # replaced, while it is followed
    with pytest.raises(Refused, match="leads to a file of root"):
        reader.read()
    assert not reader.written


def test_a_file_that_says_to_be_empty_is_not_read() -> None:
    """To read a file of /proc can block for ever."""
    assert last_lines(f"/proc/{os.getpid()}/environ", ME, 5) == []
