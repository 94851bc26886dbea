"""A client waits for a daemon of its own place that starts, and for no other."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.client import starting
from radrm.client.connection import Client
from radrm.client.starting import is_daemon, not_reached, wait_for_start
from radrm.errors import Unreachable
from radrm.host.storage.paths import Paths
from tests.waiting import wait_until

# Answers one request, once the test has made the file `go`.
DAEMON = """\
import os, socket, sys, time
home = os.environ["RADRM_HOME"]
while not os.path.exists(home + "/go"):
    time.sleep(0.01)
listener = socket.socket(socket.AF_UNIX)
listener.bind(home + "/run/radrm.sock")
listener.listen()
connection, _ = listener.accept()
connection.makefile().readline()
connection.sendall(b'{"ok": true, "result": "here"}\\n')
connection.recv(1)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.fixture
def daemon(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = home / "radrmd"
    program.write_text(DAEMON)
    found = subprocess.Popen(
        [sys.executable, str(program)], env={**os.environ, "RADRM_HOME": str(home)}
    )
    wait_until(lambda: starting._starts(places(home)), "its process")
    yield found
    found.kill()
    found.wait()


def places(home: Path) -> tuple[Paths, ...]:
    return (Paths(str(home), f"{home}/run"),)


@pytest.mark.usefixtures("daemon")
def test_a_daemon_that_starts_is_waited_for(home: Path) -> None:
    tries = 0

    def connect() -> bool:
        nonlocal tries
        tries += 1
        (home / "go").touch()
        return os.path.exists(f"{home}/run/radrm.sock")

    assert wait_for_start(places(home), connect) and tries > 1
    with Client(places(home)) as client:
        assert client.ask("ping") == "here"


@pytest.mark.usefixtures("daemon")
def test_a_daemon_of_another_place_is_not(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    assert not starting._starts(places(other))
    assert starting._starts((*places(other), *places(home)))
    assert not wait_for_start(places(other), lambda: False)


def test_an_old_process_is_no_daemon_that_starts(
    home: Path, daemon: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert starting._starts(places(home))
    monkeypatch.setattr(starting, "_YOUNG_S", -1.0)
    assert not starting._starts(places(home))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/opt/radrm/bin/python /opt/radrm/bin/radrmd", True),
        ("python3 /home/ann/.venv/bin/radrm daemon --gpus sim:1xT4", True),
        ("python3 -m radrm.cli.main daemon", True),
        ("python3 -m radrm daemon", True),
        ("python3 /usr/bin/radrm doctor", False),
        ("vi radrmd.service", False),
        ("grep -r radrm daemon", False),
        ("", False),
    ],
)
def test_the_command_lines_of_daemons(line: str, expected: bool) -> None:
    assert is_daemon(line.split(" ")) is expected


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_place_that_belongs_to_somebody_else_is_named() -> None:
    with tempfile.TemporaryDirectory() as closed:  # others cannot enter pytest's folders at all
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setresuid(65534, 65534, 65534)
            os.write(writer, str(not_reached(places(Path(closed)), own_home=True)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        said = os.read(reader, 4096).decode()
        os.close(reader)
        os.close(writer)
    assert said == f"{closed} belongs to root; unset RADRM_HOME"


def test_a_place_without_a_daemon(home: Path) -> None:
    with pytest.raises(
        Unreachable, match=r"no radrm daemon answers in .*; start one: radrm daemon"
    ):
        Client(places(home)).connect()
    assert "unset" not in str(not_reached(places(home), own_home=True))
