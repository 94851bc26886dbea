"""What the daemon counts: each end, start and joule once, whatever happens around it."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import OutOfMemory
from radrm.core.words import JobState, Outcome
from radrm.daemon.counting import Counts, Histogram
from radrm.daemon.serving.turns import Work
from radrm.structs import replace
from tests.world import GIB, World, gpus

T = TypeVar("T")


def result_of(work: Work[T]) -> T:
    """Do a piece of work to its end."""
    while True:
        try:
            next(work)
        except StopIteration as over:
            found: T = over.value
            return found


class CountingWorld(World):
    """Counts each step, as `Decisions` does."""

    def __init__(self, **words: Any) -> None:
        self.counts = Counts()
        super().__init__(**words)

    def decide(self, event: ev.Event) -> Decision:
        decision = super().decide(event)
        self.counts.note([event], [decision], 0.001)
        return decision

    @property
    def unfinished(self) -> dict[str, int]:
        states = result_of(self.counts.unfinished(self.scheduler.snapshot))
        return {state: count for state, count in states.items() if count}


def test_each_end_is_counted_once() -> None:
    world = CountingWorld(devices=gpus(1))
    first, second = world.submit(30 * GIB), world.submit(30 * GIB)
    assert world.unfinished == {"RUNNING": 1, "PENDING": 1}
    world.end(first)
    world.read()
    world.end(second, 1, oom=OutOfMemory("out of memory"))
    assert world.unfinished == {"RUNNING": 1}, "it recovers at once"
    world.end(second)
    world.cancel(world.submit(500 * GIB, source="declared"))
    assert {k: n for k, n in world.counts.attempts.items() if n} == {
        Outcome.COMPLETED: 2,
        Outcome.OOM: 1,
    }
    assert {k: n for k, n in world.counts.ended.items() if n} == {
        JobState.COMPLETED: 2,
        JobState.FAILED: 1,
    }
    assert world.unfinished == {}
    assert (world.counts.submitted, world.counts.rejected) == (3, 1), "the last one never fits"


def test_a_wait_is_that_of_the_first_start() -> None:
    world = CountingWorld(devices=gpus(1))
    first = world.submit(30 * GIB)
    second = world.submit(30 * GIB)
    world.pass_time(100.0)
    world.end(first)
    world.read()
    world.end(second, 1, oom=OutOfMemory("out of memory"))
    world.pass_time(1000.0)
    world.end(second)
    world.requeue(second)
    world.pass_time(10.0)
    waits = world.counts.wait_s.document()
    found = {
        bound: count
        for bound, count in zip([*waits["bounds"], None], waits["counts"], strict=True)
        if count
    }
    assert found == {1.0: 1, 180.0: 1}, "0 s and 100 s; neither the recovery nor the requeue"
    assert waits["sum"] == 100.0


def test_energy_adds_up_by_device_and_unknown_is_absent() -> None:
    world = CountingWorld(devices=gpus(2))
    world.broken["GPU-1"] = "the driver does not answer"
    world.pass_time(60.0)
    world.submit(GIB)
    world.pass_time(60.0)
    assert world.counts.energy_j == {"GPU-0": pytest.approx(12_000.0)}


def test_the_energy_of_devices_that_come_and_go_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("radrm.daemon.counting._MOST_DEVICES", 2)
    counts, world = Counts(), World(gpus(1))
    world.boot_s += 10.0
    decision = world.read()
    (used,) = decision.energy
    for name in "abc":
        again = replace(decision, energy=(replace(used, device=name),))
        counts.note([ev.Tick(at=world.now)], [again], 0.0)
    assert list(counts.energy_j) == ["b", "c"]


def test_the_states_are_counted_once_until_a_job_changes() -> None:
    world = CountingWorld(devices=gpus(1))
    world.submit(GIB)
    once = result_of(world.counts.unfinished(world.scheduler.snapshot))
    world.read()
    assert result_of(world.counts.unfinished(world.scheduler.snapshot)) is once
    world.submit(GIB)
    assert result_of(world.counts.unfinished(world.scheduler.snapshot)) is not once


@given(st.lists(st.floats(-1e9, 1e9)))
def test_a_histogram_counts_every_value_within_its_bound(values: list[float]) -> None:
    found = Histogram((1.0, 10.0, 100.0))
    for value in values:
        found.add(value)
    document = found.document()
    for place, bound in enumerate(document["bounds"]):
        within = sum(1 for value in values if value <= bound)
        assert sum(document["counts"][: place + 1]) == within
    assert sum(document["counts"]) == len(values)
    assert document["sum"] == pytest.approx(sum(max(0.0, value) for value in values))
