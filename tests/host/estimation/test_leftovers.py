"""What a trace leaves when its daemon is killed, and how the next daemon ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import asdict

from radrm.host.estimation import tracing
from radrm.host.estimation.tracing import Leftovers
from radrm.host.processes.procfs import TOKEN_VARIABLE, read_stat
from radrm.host.processes.tree import attempt_processes
from tests.host.estimation.asking import request
from tests.host.estimation.boxes import needs_sandbox
from tests.paths import REPOSITORY
from tests.waiting import wait_until

CLINGING = """
import ctypes
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # it would outlive its parent
pid = os.fork()
if pid == 0:  # a daemon's child as they should be: own session, no parent, nothing open
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 1024)
time.sleep(600)
"""
SERVER = """
import json, sys
from radrm.config import EstimationConfig
from radrm.host.estimation.tracing import Leftovers
from radrm.host.estimation.tracing import TraceRequest, trace
request = TraceRequest(**json.loads(sys.argv[1]))
trace(request, EstimationConfig(), leftovers=Leftovers(sys.argv[2]))
"""


class Traced:
    """A process that traces as a daemon does; what it traces clings to life."""

    def __init__(self, python3: Path, tmp_path: Path) -> None:
        self.notes = tmp_path / "traces"
        words = json.dumps(asdict(request(python3, CLINGING)))
        command = [sys.executable, "-c", SERVER, words, str(self.notes)]
        self.daemon = subprocess.Popen(command, cwd=REPOSITORY)
        wait_until(lambda: self.clinging())
        (self.parent,) = children_of(self.daemon.pid)

    def token(self) -> str:
        return next((note.stem for note in self.notes.glob("*.json")), "")

    def running(self) -> set[int]:
        token = self.token()
        return attempt_processes(token, None) if token else set()

    def clinging(self) -> bool:
        """Whether a process of the tracer's has left its session."""
        stats = [read_stat(pid) for pid in self.running()]
        return len({stat.session for stat in stats if stat is not None}) > 3

    def close(self) -> None:
        self.daemon.kill()
        self.daemon.wait()
        for pid in self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


@pytest.fixture
def traced(python3: Path, tmp_path: Path) -> Iterator[Traced]:
    made = Traced(python3, tmp_path)
    yield made
    made.close()


@needs_sandbox
def test_a_trace_ends_with_its_killed_daemon(traced: Traced) -> None:
    traced.daemon.kill()
    wait_until(lambda: not traced.running())
    assert Leftovers(str(traced.notes)).end() == 1, "what is left is a note"
    assert Leftovers(str(traced.notes)).end() == 0


@needs_sandbox
def test_a_trace_ends_with_its_killed_parent_even_if_that_ends_nothing(traced: Traced) -> None:
    os.kill(traced.parent, signal.SIGSTOP)
    traced.daemon.kill()
    os.kill(traced.parent, signal.SIGKILL)
    wait_until(lambda: not traced.running())


@pytest.mark.parametrize(
    "told",
    [
        {"boot_id": "another"},
        {"token": "0" * 32},
        {"cgroup": 7},
        {"uid": "0"},
        {"token": None},
    ],
)
def test_a_note_that_is_not_of_this_boot_or_damaged_ends_nobody(
    tmp_path: Path, told: dict[str, object]
) -> None:
    token = "e" * 32
    notes = Leftovers(str(tmp_path))
    notes.note(token, None, None)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(json.dumps({**json.loads(file.read_text()), **told}))
    marked = subprocess.Popen(["sleep", "600"], env={TOKEN_VARIABLE: token})
    harmless = not {"cgroup", "uid"} & set(told)
    try:
        assert notes.end() == (0 if harmless else 1)
        assert (marked.poll() is None) == harmless
        assert not list(tmp_path.iterdir())
    finally:
        marked.kill()
        marked.wait()


def test_nobody_elses_group_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[object] = []
    monkeypatch.setattr(tracing, "kill_tree", lambda *words, **_: killed.append(words[3]))
    for token, group in (
        ("a" * 32, "/sys/fs/cgroup/system.slice"),
        ("b" * 32, "/g/radrm-trace-bbbbbbbb"),
    ):
        Leftovers(str(tmp_path)).note(token, group, 0)
    assert Leftovers(str(tmp_path)).end() == 2
    assert killed == [None, "/g/radrm-trace-bbbbbbbb"]


def test_files_that_others_left_there_are_no_notes(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / ("c" * 32 + ".json")).symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / ("d" * 32 + ".json"))
    assert Leftovers(str(tmp_path)).end() == 0
    assert Leftovers(str(tmp_path / "missing")).end() == 0
    assert (tmp_path / "x.json").exists()
