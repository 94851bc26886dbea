"""Which attempt a process belongs to: by token, by ancestry, by control group."""

from __future__ import annotations

import os
import signal

import pytest

from radrm.host.attempts.owners import LiveAttempt, PidOwners
from radrm.host.processes.identity import Identity, identify
from radrm.host.processes.procfs import Stat, read_stat
from radrm.host.processes.tree import attempt_processes
from tests.host.processes.programs import NO_PID, SLEEP, TOKEN, Run
from tests.waiting import wait_until


def test_a_chain_of_processes_without_end_is_looked_along_for_a_bounded_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    def chained(pid: int, proc: str = "/proc") -> Stat:
        nonlocal asked
        asked += 1
        return Stat(f"{pid} (x) S {pid + 1} 1 1 {'0 ' * 13}1 0 5 0".encode())

    monkeypatch.setattr("radrm.host.attempts.owners.read_stat", chained)
    owners = PidOwners()
    owners.update([LiveAttempt(1, 1, TOKEN, Identity(os.getpid(), 1, "boot"))])
    assert owners.owner_of(NO_PID) is None
    assert asked < 1000


def test_what_is_remembered_of_processes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radrm.host.attempts.owners.MOST_REMEMBERED", 3)
    real = read_stat
    monkeypatch.setattr(
        "radrm.host.attempts.owners.read_stat",
        lambda pid: real(os.getpid()) if pid > NO_PID else real(pid),
    )
    owners = PidOwners()
    owners.update([LiveAttempt(1, 1, TOKEN, identify(os.getpid()))])
    assert owners.owner_of(os.getpid()) == (1, 1)
    monkeypatch.setattr("radrm.host.attempts.owners._is_there", lambda process: process[0] < NO_PID)
    for pid in range(NO_PID + 1, NO_PID + 20):
        owners.owner_of(pid)
    assert len(owners._view.cache) <= 4
    assert owners.seen_of((1, 1)) == [os.getpid()], "what lives is not forgotten"


# ------------------------------------------------------------------ owners


def test_owners_by_token_and_by_ancestry(run: Run) -> None:
    marked = run(SLEEP, token=TOKEN)
    parent = run("import os, time; os.fork(); time.sleep(1000)")
    runner = identify(parent.pid)
    assert runner is not None
    wait_until(lambda: attempt_processes(None, runner) and attempt_processes(TOKEN, None))
    (child,) = attempt_processes(None, runner)
    owners = PidOwners()
    assert owners.owner_of(marked.pid) is None
    owners.update([LiveAttempt(1, 2, TOKEN, None), LiveAttempt(5, 1, "another", runner)])
    assert owners.owner_of(marked.pid) == (1, 2), "that it was nobody's is not remembered"
    assert owners.owner_of(child) == owners.owner_of(parent.pid) == (5, 1)
    assert owners.owner_of(os.getpid()) is None
    assert owners.owner_of(NO_PID) is None
    assert owners.seen_of((1, 2)) == [marked.pid]
    parent.kill()
    parent.wait()
    assert owners.owner_of(child) == (5, 1), "what was seen is remembered"
    owners.update([LiveAttempt(1, 2, TOKEN, None)])
    assert owners.owner_of(child) is None
    os.kill(child, signal.SIGKILL)
