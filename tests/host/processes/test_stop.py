"""The order of TERM: which processes are asked first, and when the rest is."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.processes import stop as module
from radrm.host.processes.procfs import Stat
from radrm.host.processes.stop import Stop, topmost
from tests.host.processes.programs import NO_PID


@pytest.mark.parametrize(
    ("parents", "handling", "shells", "asked", "still"),
    [
        # A trainer and its loaders, that inherit its handler, under a shell.
        ({2: 1, 3: 2, 4: 3, 5: 3}, {3, 4, 5}, {2}, {3}, {2}),
        # Nobody handles it: all are the rest.
        ({2: 1, 3: 2, 4: 3}, set(), {2}, set(), set()),
        # A trainer beside a program without a handler (a pipeline): only the shell stands still.
        ({2: 1, 3: 2, 4: 2}, {3}, {2}, {3}, {2}),
        # Several topmost ones, under a launcher without a handler, which is no shell.
        ({2: 1, 3: 2, 4: 2, 5: 3, 6: 4}, {3, 4, 5, 6}, set(), {3, 4}, set()),
        # torchrun: the agent handles it, and tells its workers.
        ({2: 1, 3: 2, 4: 2, 5: 3}, {2, 3, 4, 5}, set(), {2}, set()),
        # A shell with a trap, and its command: the trap runs when the command has ended.
        ({2: 1, 3: 2, 4: 3}, {2, 3, 4}, {2}, {2, 3}, set()),
        # A command without a handler (it may know another signal) of a shell with a trap: its
        # loaders have one.
        ({2: 1, 3: 2, 4: 3}, {2, 4}, {2}, {2}, set()),
        # A shell with a trap below one without.
        ({2: 1, 3: 2, 4: 3}, {3, 4}, {2, 3}, {3, 4}, {2}),
        # A subshell without a trap below a shell with one.
        ({2: 1, 3: 2, 4: 3}, {2, 4}, {2, 3}, {2, 4}, {3}),
        # Two trees: one was adopted by the runner.
        ({2: 1, 3: 2, 8: 1, 9: 8}, {3, 8, 9}, {2}, {3, 8}, {2}),
        ({}, set(), set(), set(), set()),
        # Parents in a circle (a pid that was given out again): left to the rest.
        ({2: 3, 3: 2, 4: 3, 5: 1}, {4, 5}, {2}, {5}, set()),
    ],
)
def test_who_is_asked_first(
    parents: dict[int, int],
    handling: set[int],
    shells: set[int],
    asked: set[int],
    still: set[int],
) -> None:
    first, stopped = topmost(parents, handling, shells)
    assert (set(first), stopped) == (asked, still) and len(first) == len(asked)


trees = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.tuples(*(st.integers(1, i + 1) for i in range(n))),
        st.sets(st.integers(2, n + 1)),
        st.sets(st.integers(2, n + 1)),
    )
)


@given(trees)
def test_only_shells_above_an_asked_one_stand_still(
    tree: tuple[tuple[int, ...], set[int], set[int]],
) -> None:
    """Process i + 2 is a child of an earlier one, or of the runner (1)."""
    parents = {i + 2: parent for i, parent in enumerate(tree[0])}
    handling, shells = tree[1] & parents.keys(), tree[2] & parents.keys()
    first, still = topmost(parents, handling, shells)
    asked = set(first)
    assert asked <= handling and len(first) == len(asked)
    assert bool(asked) is bool(handling), "somebody is asked, if somebody can be"
    above = {pid: set(_above(parents, pid)) for pid in parents}
    for place, pid in enumerate(first):
        assert not any(up in handling and up not in shells for up in above[pid])
        assert not above[pid] & set(first[place:]), "a shell comes before its command"
    for pid in handling - asked:
        assert above[pid] & (handling | asked), "it waits for nobody"
    assert still == {
        up for pid in asked for up in above[pid] if up in shells and up not in handling
    }


def _above(parents: dict[int, int], pid: int) -> list[int]:
    found = []
    while (pid := parents[pid]) in parents:
        found.append(pid)
    return found


# ------------------------------------------------------------------ one stop, without processes


class Tree:
    """Processes that are only records: a shell (2) with a trainer (3) and its loaders (4, 5)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parents = {2: 1, 3: 2, 4: 3, 5: 3}
        self.handling, self.shells = {3, 4, 5}, {2}
        self.ticks = {pid: 7 * pid for pid in range(9)}
        self.now_s = 100.0
        self.got: list[tuple[int, int]] = []
        monkeypatch.setattr(module, "read_stat", self.stat)
        monkeypatch.setattr(module, "send_signal", self.send)
        monkeypatch.setattr(module, "_handles", lambda pid: pid in self.handling)
        monkeypatch.setattr(module, "is_shell", lambda pid: pid in self.shells)
        self.stop = Stop(self.find, 30.0, 2.0, clock=lambda: self.now_s)

    def find(self) -> dict[int, Stat]:
        return {pid: stat for pid in self.parents if (stat := self.stat(pid)) is not None}

    def stat(self, pid: int) -> Stat | None:
        if pid not in self.parents:
            return None
        fields = (
            b"%d (x) S %d 1 1 " % (pid, self.parents[pid])
            + b"0 " * 13
            + b"1 0 %d" % self.ticks[pid]
        )
        return Stat(fields)

    def send(self, pid: int, start_ticks: int, number: int) -> bool:
        assert start_ticks == self.ticks[pid]
        self.got.append((pid, number))
        return True

    def taken(self) -> list[tuple[int, int]]:
        """The signals since the last call, without those that wake."""
        found, self.got = self.got, []
        return sorted(each for each in found if each[1] != signal.SIGCONT)


TERM, STILL = signal.SIGTERM, signal.SIGSTOP


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(monkeypatch)


def test_the_rest_is_asked_when_the_first_have_ended(tree: Tree) -> None:
    assert tree.stop.look() == module.LOOK_S
    assert tree.taken() == [(2, STILL), (3, TERM)]
    tree.now_s += 20.0
    assert tree.stop.look() == module.LOOK_S and tree.taken() == []
    assert tree.stop.left_s == float("inf")
    del tree.parents[3], tree.parents[4], tree.parents[5]
    assert tree.stop.look() is None and tree.taken() == [(2, TERM)]
    assert tree.stop.left_s == 2.0
    assert tree.stop.look() is None and tree.taken() == []


def test_those_that_the_first_leave_behind_are_asked_in_order_too(tree: Tree) -> None:
    """A wrapper ends at once and leaves the trainer, whose loaders must live."""
    tree.parents |= {6: 2}
    tree.parents[3] = 6
    tree.handling.add(6)
    tree.stop.look()
    assert (6, TERM) in tree.taken()
    del tree.parents[6]
    tree.parents[3] = 1
    tree.stop.look()
    assert tree.taken() == [(3, TERM)]


def test_the_rest_is_asked_before_the_grace_time_ends_and_nobody_twice(tree: Tree) -> None:
    tree.stop.look()
    tree.taken()
    tree.now_s += 27.95
    assert tree.stop.look() == pytest.approx(0.05)
    tree.now_s += 0.05
    assert tree.stop.look() is None
    assert tree.taken() == [(2, TERM), (4, TERM), (5, TERM)]


def test_a_new_process_with_an_old_pid_is_another_one(tree: Tree) -> None:
    tree.stop.look()
    tree.taken()
    tree.ticks[3] = 22
    tree.stop.look()
    assert (3, TERM) in tree.taken()


@pytest.mark.parametrize("seconds", [0.0, 0.4, 4.0])
def test_a_short_grace_time_is_divided(tree: Tree, seconds: float) -> None:
    tree.stop = Stop(tree.find, seconds, 2.0, clock=lambda: tree.now_s)
    tree.stop.look()
    first = tree.taken()
    assert ((4, TERM) in first) is (seconds == 0.0)
    tree.now_s += 0.76 * seconds
    tree.stop.look()
    assert seconds == 0.0 or (4, TERM) in tree.taken()


def test_without_a_handler_all_are_asked_at_once(tree: Tree) -> None:
    tree.handling = set()
    assert tree.stop.look() is None
    assert tree.taken() == [(pid, TERM) for pid in (2, 3, 4, 5)]


# ------------------------------------------------------------------ what /proc says


@pytest.mark.parametrize(
    ("handler", "handles"),
    [(lambda *_: None, True), (signal.SIG_IGN, False), (signal.SIG_DFL, False)],
)
def test_a_process_handles_what_it_catches(handler: Any, handles: bool) -> None:
    before = signal.signal(TERM, handler)
    try:
        assert module._handles(os.getpid()) is handles
    finally:
        signal.signal(TERM, before)


def test_a_process_handles_what_it_waits_for() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {TERM})
    try:
        assert module._handles(os.getpid())
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {TERM})


def test_a_process_that_is_gone_handles_nothing() -> None:
    assert not module._handles(NO_PID) and not module.is_shell(NO_PID)
