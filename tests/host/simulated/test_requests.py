"""Hostile clients of the driver: they harm neither it nor its other clients."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from pathlib import Path

import pytest

from radrm.errors import DeviceError
from radrm.host.simulated.client import DriverClient, OutOfGpuMemory
from radrm.host.sockets import connect
from tests.host.simulated.host import SPEC, Host
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(
    "line",
    [
        b"hello\n",
        b"\x00\xff\xfe\n",
        b"{}\n",
        b"[" * 60000 + b"\n",
        b'{"op": "explode"}\n',
        b'{"op": "alloc", "mib": -5}\n',
        b'{"op": "alloc", "mib": 1e400}\n',
        b'{"op": "attach", "gpus": 1, "smact": 7}\n',
        b'{"op": "attach", "gpus": 1, "smact": NaN}\n',
        b"x" * 200_000,
    ],
)
def test_garbage_is_answered_and_its_sender_let_go(host, line):
    with connect(host.path, PATIENCE_S) as unmanaged:
        try:
            unmanaged.sendall(line)
        except BrokenPipeError:
            pass
        answer = b""
        try:
            while data := unmanaged.recv(65536):
                answer += data
        except ConnectionResetError:
            pass
    assert not answer or "error" in json.loads(answer)
    assert host.used() == [0, 0]


def test_requests_out_of_place_are_refused_and_the_connection_lives(host):
    with pytest.raises(DeviceError, match="attach first"):
        (client := DriverClient(host.path)).alloc(10)
    client.attach(None, 0.5)
    with pytest.raises(DeviceError, match="already"):
        client.attach(None, 0.5)
    client.alloc(1000)
    with pytest.raises(OutOfGpuMemory) as caught:
        client.alloc(40000)
    assert (caught.value.free_mib, caught.value.held_mib) == (39536, 1000)
    with pytest.raises(DeviceError, match="1 job"):
        client.ask("quit")
    client.close()


def test_who_never_reads_answers_holds_up_nobody(host):
    greedy = connect(host.path, PATIENCE_S)
    greedy.setblocking(False)
    sent = 0
    try:
        while sent < 50_000_000:
            sent += greedy.send(b'{"op": "devices"}\n' * 1000)
    except BlockingIOError:
        pass
    assert sent < 50_000_000
    assert host.used() == [0, 0]
    greedy.close()


def test_a_crowd_of_silent_clients_and_half_lines(host):
    crowd = [connect(host.path, PATIENCE_S) for _ in range(200)]
    for unmanaged in crowd:
        unmanaged.sendall(b'{"op": "he')
    assert host.used() == [0, 0]
    crowd[0].sendall(b'llo"}\n')
    assert json.loads(crowd[0].makefile().readline())["spec"] == SPEC
    for unmanaged in crowd:
        unmanaged.close()


def test_a_client_that_only_stops_writing_still_gets_its_answers(host):
    with connect(host.path, PATIENCE_S) as client:
        client.sendall(b'{"op": "hello"}\n{"op": "devices"}\n')
        client.shutdown(socket.SHUT_WR)
        lines = client.makefile().readlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["pid", "devices"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_others_may_use_the_gpus_but_not_break_them():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        host = Host(Path(folder))
        try:
            unmanaged = os.fork()
            if unmanaged == 0:
                os._exit(_try_as_another_user(host))
            assert os.waitstatus_to_exitcode(os.waitpid(unmanaged, 0)[1]) == 0
        finally:
            host.close()


def _try_as_another_user(host):
    try:
        os.setuid(65534)
        client = DriverClient(host.path)
        client.attach(None, 0.5)
        client.alloc(1000)
    except Exception:
        return 1
    try:
        client.ask("fail", uuid=host.uuids[0], message="x")
    except DeviceError as error:
        return 0 if "65534" in str(error) else 2
    return 3
