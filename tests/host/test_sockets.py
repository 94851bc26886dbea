"""AF_UNIX sockets: any depth, known peers, stale files, light imports."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from radrm.errors import Unreachable
from radrm.host.sockets import Peer, connect, listen, peer
from tests.imports import imported_by


@pytest.fixture
def deep(tmp_path):
    folder = tmp_path.joinpath(*["a-folder-far-down"] * 20)
    folder.mkdir(parents=True)
    return folder / "radrm.sock"


def test_a_socket_far_down_is_reached_and_knows_its_peer(deep):
    assert len(str(deep)) > 300
    with listen(deep) as server, connect(deep, 5.0) as client:
        accepted, _ = server.accept()
        with accepted:
            me = Peer(os.getpid(), os.geteuid(), os.getegid())
            assert peer(accepted) == peer(client) == me
            client.sendall(b"hello")
            assert accepted.recv(5) == b"hello"


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_the_file_mode_does_not_depend_on_the_umask(deep, mode):
    before = os.umask(0o027)
    try:
        listen(deep, mode).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(deep.stat().st_mode) == mode


def test_a_stale_socket_is_replaced(deep):
    listen(deep).close()
    with pytest.raises(Unreachable):
        connect(deep, 1.0)
    with listen(deep):
        connect(deep, 5.0).close()


def test_anything_but_a_socket_is_left_alone(deep):
    deep.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        listen(deep)
    assert deep.read_text() == "precious"


@pytest.mark.parametrize("path", ["missing.sock", "no/such/folder.sock", "file/x.sock"])
def test_nobody_there_is_unreachable(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable, match=path):
        connect(tmp_path / path, 1.0)


def test_a_listener_that_never_accepts_is_unreachable(tmp_path):
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(0)
        with connect(path, 0.05), pytest.raises(Unreachable, match="no connection within"):
            connect(path, 0.05)


def test_no_file_stays_open(deep):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    with listen(deep):
        before = open_files()
        connect(deep, 1.0).close()
        assert open_files() == before


def test_it_is_light_to_import():
    heavy = {"dataclasses", "inspect", "pathlib", "json", "asyncio", "msgspec"}
    assert not heavy & imported_by("import radrm.host.sockets")
