"""What the daemon of a node tells Slurm's controller, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from radrm.slurm import telling
from radrm.slurm.comment import Use, started, waiting
from radrm.slurm.outer import Told
from radrm.slurm.telling import Notes, Voice
from tests.waiting import wait_until

RUN = "47.0"
TOLD = Told("46_1", "47", "0", 1000, "train", "shared", "g1", 3600.0, 0.0, 9000, "")
BUSY, HELD = frozenset({"memory"}), frozenset({"paused"})


class AtOnce(Voice):
    """Does what is to be done in the thread that asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_tell = True

    def do(self, name: str, work: Callable[[], object]) -> None:
        work()


class Node:
    """The notes of a node, whose clock the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, told: Told = TOLD) -> None:
        self.now_s, self.asked = 1000.0, list[str]()
        monkeypatch.setattr(telling.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(telling, "run", self.run)
        self.notes = Notes(1800.0, AtOnce())
        self.notes.begin(told)

    def run(self, *words: str, timeout_s: float) -> str:
        self.asked.append(" ".join(words[2:]))
        return ""

    def waits(self, kind: frozenset[str] = BUSY, why: str = "GPU 0: busy") -> None:
        if self.notes.is_due(RUN):
            self.notes.waiting(RUN, why, kind)


def test_a_job_that_starts_at_once_costs_nothing_until_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node(monkeypatch)
    node.waits()
    node.now_s += 5
    node.notes.started(RUN)
    assert node.asked == []
    assert node.notes.ended(RUN, Use(gpu_s=3.0)) and node.notes.ended(RUN, Use(gpu_s=3.0))
    assert node.asked == ["JobId=46_1 AdminComment=radrm:gpu_s=3"]


def test_a_wait_is_shown_once_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waits the limit is longer, from its start on by the wait: three requests in all,
    with that of its begin."""
    node = Node(monkeypatch)
    for _ in range(8):
        node.now_s += 20
        node.waits()
    for _ in range(2):
        node.notes.started(RUN)
    notes = waiting("GPU 0: busy", 0, 30), started(3)
    assert node.asked == [f"JobId=46_1 AdminComment={note}" for note in notes]


@pytest.mark.parametrize("note", [waiting("GPU 0: busy", 1, 30), started(30)])
def test_a_new_daemon_knows_the_limit_of_a_job_whose_wait_was_added(
    monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    node = Node(monkeypatch, replace(TOLD, limit_s=5400.0, ran_s=61.0, note=note))
    assert node.notes.own_limit_s(RUN) == 3600.0
    node.notes.started(RUN)
    assert node.asked == [f"JobId=46_1 AdminComment={started(2)}"]


def test_a_reason_of_another_kind_is_told_once_a_minute_for_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node(monkeypatch)
    node.now_s += 30
    node.waits()
    node.waits(why="GPU 1: busy")
    assert len(node.asked) == 1, "the same kind"
    for kind in HELD, BUSY, HELD:
        node.waits(kind)
    assert len(node.asked) == 2
    node.now_s += 60
    node.waits(BUSY)
    assert len(node.asked) == 3


def test_a_step_that_stays_for_longer_than_it_should_gains_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node(monkeypatch)
    node.now_s += 30
    node.waits()
    node.now_s += 80 * 60
    node.notes.started(RUN)
    assert node.asked[-1].endswith(started(30))


@pytest.mark.parametrize(("limit_s", "minutes"), [(None, "TimeLimit=2"), (60.0, None)])
def test_the_limit_of_a_file_is_slurms_where_slurm_has_none(
    monkeypatch: pytest.MonkeyPatch, limit_s: float | None, minutes: str | None
) -> None:
    node = Node(monkeypatch, replace(TOLD, limit_s=limit_s))
    for _ in range(2):
        node.notes.limit(RUN, 90.0)
    assert node.asked == ([f"JobId=46_1 {minutes}"] if minutes else [])


def test_one_that_is_not_root_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch)
    node.notes._voice.may_tell = False
    node.now_s += 600
    node.waits()
    node.notes.started(RUN)
    node.notes.limit(RUN, 1.0)
    node.notes.returns(RUN, "x")
    assert node.notes.ended(RUN, Use()) and node.asked == []


def test_a_silent_controller_is_silent_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    node, up = Node(monkeypatch), [True]
    monkeypatch.setattr(node, "run", lambda *words, timeout_s: "SlurmdTimeout           = 40 sec\n")
    monkeypatch.setattr(telling, "run", node.run)
    pings: list[float] = []

    def is_up(timeout_s: float) -> bool:
        pings.append(node.now_s)
        return up[0]

    monkeypatch.setattr(telling, "is_up", is_up)

    def silent(after_s: float) -> bool:
        node.now_s += after_s
        return node.notes.silence()[0] is not None

    assert not silent(0) and not silent(3600), "nobody has asked for an hour"
    assert node.notes.silence()[1] == 10.0
    up[0] = False
    assert [silent(10) for _ in range(5)] == [False] * 4 + [True]
    up[0] = True
    assert [silent(10) for _ in range(2)][-1] is False
    before = len(pings)
    assert not any(silent(0) for _ in range(100)) and len(pings) == before, "one for the node"


def test_the_last_that_is_to_be_told_of_a_job_is_told() -> None:
    voice, told = Voice(), list[str]()
    voice.do("a", lambda: wait_until(lambda: voice.is_telling("b"), "more"))
    for text in "first", "last":
        voice.do("b", partial(told.append, text))
    wait_until(lambda: not voice.is_telling("b"), "all")
    assert told == ["last"]
