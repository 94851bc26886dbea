"""The sockets that take what jobs report."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.progress import MOST_BYTES, Receiver

UID = os.getuid()


@pytest.fixture
def receiver(short: Path) -> Iterator[Receiver]:
    found = Receiver(str(short), give_away=False)
    yield found
    found.release()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name, as a socket's path has to be short."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="radrm-p-") as folder:
        yield Path(folder)


def send(path: str, *datagrams: bytes) -> int:
    """Send without waiting; how many the kernel took."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for sent, datagram in enumerate(datagrams):
            try:
                sender.sendto(datagram, path)
            except BlockingIOError:
                return sent
    return len(datagrams)


def test_each_attempt_is_read_by_itself(receiver: Receiver) -> None:
    first, second = receiver.open(1, UID), receiver.open(2, UID)
    assert receiver.ready() == []
    send(first, b"a", b"b", b"c")
    send(second, b"", b"d")
    assert sorted(receiver.ready()) == [1, 2]
    assert receiver.read(1, 2) == [b"a", b"b"]
    assert receiver.ready() != [2], "what was not read stays"
    assert receiver.read(1, 2) == [b"c"]
    assert receiver.read(2, 9) == [b"", b"d"]
    assert receiver.ready() == [] and receiver.read(3, 9) == []


def test_a_datagram_that_is_too_long_is_seen_as_such(receiver: Receiver) -> None:
    send(receiver.open(1, UID), b"x" * MOST_BYTES, b"x" * (MOST_BYTES + 1), b"x" * 9000)
    assert [len(each) for each in receiver.read(1, 9)] == [512, 513, 513]


def test_a_flood_stays_in_the_kernel_and_never_blocks_its_sender(receiver: Receiver) -> None:
    path = receiver.open(1, UID)
    taken = send(path, *[b"step=1"] * 10_000)
    assert 0 < taken < 10_000
    assert len(receiver.read(1, 4)) == 4
    assert send(path, b"step=2") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_the_socket_is_the_users_and_the_folder_is_not(short: Path) -> None:
    receiver = Receiver(str(short), give_away=True)
    path = receiver.open(1, 12345)
    found, folder = os.stat(path), os.stat(os.path.dirname(path))
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (12345, 0o600)
    assert (folder.st_uid, stat.S_IMODE(folder.st_mode)) == (0, 0o711)
    receiver.release()


def test_the_next_daemon_binds_in_the_same_folder(short: Path) -> None:
    before = Receiver(str(short), give_away=False)
    path = before.open(1, UID)
    folder = os.stat(os.path.dirname(path)).st_ino
    send(path, b"lost")
    before.release()
    with pytest.raises(ConnectionRefusedError):
        send(path, b"lost, too")
    after = Receiver(str(short), give_away=False)
    assert after.open(1, UID) == path and os.stat(os.path.dirname(path)).st_ino == folder
    send(path, b"new")
    assert after.read(1, 9) == [b"new"]
    after.release()


def test_an_ended_attempt_leaves_nothing_and_others_keep_theirs(receiver: Receiver) -> None:
    first, second = receiver.open(1, UID), receiver.open(2, UID)
    receiver.close(1)
    receiver.close(1)
    assert not os.path.exists(os.path.dirname(first)) and os.path.exists(second)
    assert list(receiver.serials) == [2]


def test_what_is_left_is_removed_by_name_and_nothing_else(receiver: Receiver, short: Path) -> None:
    receiver.open(5, UID)
    outside = short / "outside"
    outside.mkdir()
    (outside / "socket").write_text("precious")
    for name in ("7", "8", "not-ours", "9" * 30):
        (short / name).mkdir()
    (short / "8" / "socket").write_text("no socket")
    (short / "9").symlink_to(outside)
    receiver.remove_left()
    left = sorted(each.name for each in short.iterdir())
    assert left == ["5", "8", "9", "9" * 30, "not-ours", "outside"]
    assert (outside / "socket").read_text() == "precious"


@pytest.mark.parametrize("what", ["file", "link", "folder at the socket's place"])
def test_what_stands_in_the_way_costs_the_reports_only(
    receiver: Receiver, short: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    if what == "file":
        (short / "1").write_text("")
    elif what == "link":
        (short / "there").mkdir()
        (short / "1").symlink_to(short / "there")
    else:
        (short / "1" / "socket").mkdir(parents=True)
    assert receiver.open(1, UID) == ""
    assert "attempt 1 cannot report its progress" in caplog.text
    assert str(short / "1") in caplog.text
    receiver.close(1)


def test_a_folder_that_somebody_removes_is_made_again(short: Path) -> None:
    folder = short / "progress"
    folder.mkdir()
    receiver = Receiver(str(folder), give_away=False)
    receiver.open(1, UID)
    shutil.rmtree(folder)
    path = receiver.open(2, UID)
    assert send(path, b"step=1") == 1 and receiver.read(2, 9) == [b"step=1"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    receiver.release()


def test_a_path_that_no_program_could_address_is_not_bound(
    short: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deep = short / ("x" * 90)
    deep.mkdir()
    receiver = Receiver(str(deep), give_away=False)
    assert receiver.open(1, UID) == "" and not list(deep.iterdir())
    assert "set RADRM_HOME to a shorter path" in caplog.text
    receiver.release()
