"""What a trace leaves when its daemon is killed, and how the next daemon ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import asdict

from radrm.host.estimation import tracing
from radrm.host.estimation.tracing import Leftovers
from radrm.host.processes.procfs import TOKEN_VARIABLE, read_stat
from tests.host.estimation.asking import request
from tests.paths import REPOSITORY
from tests.waiting import wait_until

CLINGING = """
pid = os.fork()
if pid == 0:  # a daemon's child as they should be: own session, no parent, nothing open
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 1024)
{before}
with open({pids!r}, "a") as file:
    file.write(f"{{os.getpid()}}\\n")
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

    def __init__(self, python3: Path, tmp_path: Path, before: str = "") -> None:
        self._pids = tmp_path / "pids"
        self.notes = tmp_path / "traces"
        asked = request(python3, CLINGING.format(pids=str(self._pids), before=before))
        words = json.dumps(asdict(asked))
        command = [sys.executable, "-c", SERVER, words, str(self.notes)]
        self.daemon = subprocess.Popen(command, cwd=REPOSITORY)
        wait_until(lambda: len(self.pids()) == 2)
        (self.parent,) = children_of(self.daemon.pid)

    def pids(self) -> list[int]:
        return list(map(int, self._pids.read_text().split())) if self._pids.exists() else []

    def running(self) -> list[int]:
        stats = {pid: read_stat(pid) for pid in (*self.pids(), self.parent)}
        return [pid for pid, stat in stats.items() if stat is not None and not stat.dead]

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
def traced(python3: Path, tmp_path: Path) -> Iterator[Callable[..., Traced]]:
    made: list[Traced] = []

    def make(before: str = "") -> Traced:
        made.append(Traced(python3, tmp_path, before))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_trace_ends_with_its_killed_daemon(traced: Callable[..., Traced]) -> None:
    under_way = traced()
    under_way.daemon.kill()
    wait_until(lambda: not under_way.running())


def test_a_tracer_ends_with_its_parent(traced: Callable[..., Traced]) -> None:
    under_way = traced()
    tracer, _ = sorted(under_way.pids(), key=lambda pid: read_stat(pid).session != pid)  # type: ignore[union-attr]
    under_way.daemon.kill()
    os.kill(under_way.parent, signal.SIGKILL)
    wait_until(lambda: tracer not in under_way.running())


def test_what_both_have_left_is_ended_by_the_next_daemon(traced: Callable[..., Traced]) -> None:
    spared = "import ctypes; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)"
    under_way = traced(spared)
    os.kill(under_way.parent, signal.SIGSTOP)  # so that it ends nothing before it is killed
    under_way.daemon.kill()
    under_way.daemon.wait()
    os.kill(under_way.parent, signal.SIGKILL)
    wait_until(lambda: under_way.parent not in under_way.running())
    assert len(under_way.running()) == 2
    unmanaged = subprocess.Popen(["sleep", "600"], env={TOKEN_VARIABLE: "f" * 32})
    try:
        assert Leftovers(str(under_way.notes)).end() == 1
        assert not under_way.running()
        assert unmanaged.poll() is None
        assert Leftovers(str(under_way.notes)).end() == 0
    finally:
        unmanaged.kill()
        unmanaged.wait()


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
