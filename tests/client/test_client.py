"""The client's connection: an answer belongs to its question, whatever came between."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.client.connection import Client
from radrm.errors import Refused, Unreachable
from radrm.host.storage.paths import paths_for

turning_away = threading.Event()
"""Set while the daemon lets nobody in."""


class _Interrupted(BaseException):
    """What a signal's handler raises."""


@pytest.fixture
def handled() -> threading.Event:
    """Set once the signal's handler has run: the answer comes too late."""
    return threading.Event()


@pytest.fixture
def client(tmp_path: Path, handled: threading.Event) -> Iterator[Client]:
    """Of a daemon that names each operation back; before `slow` it signals this process."""
    paths = paths_for({"RADRM_HOME": str(tmp_path)}, os.getuid())
    Path(paths.socket).parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(paths.socket)
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection, connection.makefile("rwb") as stream:
                if turning_away.is_set():
                    stream.write(json.dumps({"ok": False, "error": "full", "code": 1}).encode())
                    stream.write(b"\n")
                    continue
                for line in stream:
                    op = json.loads(line)["op"]
                    if op == "leave":
                        break
                    if op == "slow":
                        os.kill(os.getpid(), signal.SIGUSR1)
                        handled.wait(60)
                    stream.write(json.dumps({"ok": True, "result": op}).encode() + b"\n")
                    stream.flush()
                    if op == "last":
                        break

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    with Client((paths,)) as client:
        yield client
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    server.join()


def test_an_interrupted_question_leaves_its_answer_to_nobody(
    client: Client, handled: threading.Event
) -> None:
    def interrupt(*_: object) -> None:
        handled.set()
        raise _Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        assert client.ask("first") == "first"
        with pytest.raises(_Interrupted):
            client.ask("slow")
        assert client.ask("status") == "status"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_daemon_that_goes_away_is_found_again(client: Client) -> None:
    with pytest.raises(Unreachable, match="closed the connection without an answer; try again"):
        client.ask("leave")
    assert client.ask("status") == "status"


def test_the_end_of_an_idle_connection_fails_no_question(client: Client) -> None:
    assert client.ask("last") == "last"
    assert client._socket is not None
    while client._socket.recv(1, socket.MSG_PEEK) != b"":
        pass
    assert client.ask("cancel") == "cancel"


def test_a_daemon_that_lets_nobody_in_is_heard(client: Client) -> None:
    turning_away.set()
    try:
        client.connect()
        assert client._socket is not None
        while client._socket.recv(1, socket.MSG_PEEK) == b"":
            pass
        with pytest.raises(Refused, match="full"):
            client.ask("status")
    finally:
        turning_away.clear()
