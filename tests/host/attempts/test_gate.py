"""A runner that waits at a gate until the daemon has set up its job's control group."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from radrm.core.records import Exit
from radrm.host.attempts import runner
from radrm.host.attempts.evidence import Ended, Started, Void
from radrm.host.processes import cgroups
from radrm.structs import replace
from tests.host.attempts.host import SERIAL, Host, end_of, next_of
from tests.waiting import wait_until


class Gate:
    """What `LaunchPlan.prepare` makes, and its other end."""

    def __init__(self) -> None:
        self.opens: int | None = None
        self.group = ""

    def prepare(self, group: str) -> int:
        assert os.path.isdir(group)
        self.group = group
        gate, self.opens = os.pipe()
        return gate

    def close(self, said: bytes = b"") -> None:
        if self.opens is not None:
            os.write(self.opens, said)
            os.close(self.opens)
        self.opens = None


@pytest.fixture
def gate() -> Iterator[Gate]:
    trial = cgroups.place(f"radrm-test-{os.getpid()}")
    if trial is None or not cgroups.make(trial):
        pytest.skip("no control group of version 2 can be made here")
    cgroups.remove(trial)
    made = Gate()
    yield made
    made.close()


def test_the_job_begins_in_its_group_when_the_gate_opens(host: Host, gate: Gate) -> None:
    plan = host.plan("sh", "-c", "cat /proc/self/cgroup; test -e set")
    daemon = host.daemon()
    daemon.launch(replace(plan, prepare=gate.prepare))
    assert daemon.group_of(SERIAL) == gate.group
    (host.cwd / "set").touch()
    gate.close(b"\n")
    assert isinstance(next_of(daemon), Started)
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit(code=0)
    assert os.path.basename(gate.group) in (host.cwd / "out").read_text()
    wait_until(lambda: not os.path.exists(gate.group))


def test_a_daemon_that_dies_at_the_gate_leaves_a_void_launch(host: Host, gate: Gate) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("touch", "began", prepare=gate.prepare))
    gate.close()  # as the kernel does it for a killed daemon
    wait_until(lambda: not os.path.exists(gate.group))
    assert isinstance(host.daemon().adopt(SERIAL, 3), Void)
    assert not (host.cwd / "began").exists() and not host.processes()


def test_a_silent_daemon_does_not_keep_it_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opens, closes = os.pipe()
    monkeypatch.setattr(runner, "GATE", opens)
    monkeypatch.setattr(runner, "_GATE_S", 0.01)
    assert runner._opens()
    os.close(closes)
    opens, closes = os.pipe()
    monkeypatch.setattr(runner, "GATE", opens)
    os.close(closes)
    assert not runner._opens()
