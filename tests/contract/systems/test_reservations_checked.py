"""What a planner may reserve for a waiting job, and what its answer must look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.constraints.reserve import MOST_AHEAD_S, MOST_OWNERS, check_reserve
from radrm.core.proposals import Proposal, Reserve
from radrm.core.records import Job, Refusal
from radrm.core.rules import Plan
from radrm.core.settings import CoreSettings
from radrm.core.state.timers import KILL, Timer
from radrm.core.view import View
from radrm.core.words import JobState
from tests.core.placements import propose
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9)


@dataclass(frozen=True)
class Says:
    """Proposes the same at each call, and starts nothing: jobs wait."""

    says: tuple[Proposal, ...] = ()
    name: str = "says"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.DevicesSeen, ev.ReadingsTaken})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self.says)

    def explain(self, view: View, job: Job) -> tuple[Refusal, ...]:
        return ()


def wish(job: int = 1, **changes: Any) -> Reserve:
    usual: dict[str, Any] = {"job_id": job, "devices": (("GPU-0", None),)}
    return Reserve(**{**usual, "start_s": 2000.0, "end_s": 3000.0, **changes})


def server(*says: Proposal, waiting: int = 1, count: int = 1) -> World:
    world = World(gpus(count), planners=(Says(says),), settings=CORE)
    for _ in range(waiting):
        assert world.state(world.submit(1)) is JobState.PENDING
    world.read()
    return world


HUGE = 10**400
REFUSED: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"devices": (("GPU-1", GIB),)}, None),
    ({"start_s": 0}, None),
    ({"job_id": 0}, "job"),
    ({"job_id": 99}, "job"),
    ({"devices": ()}, "count"),
    ({"devices": (("GPU-0", None), ("GPU-0", GIB))}, "count"),
    ({"devices": (("GPU-7", None),)}, "vanished"),
    ({"devices": (("GPU-0", 0),)}, "capacity"),
    ({"devices": (("GPU-0", 41 * GIB),)}, "capacity"),
    ({"start_s": 3000.0}, "interval"),
    ({"end_s": 999.0, "start_s": 0.0}, "interval"),
    ({"end_s": 1000.0 + MOST_AHEAD_S + 1}, "interval"),
    ({"start_s": -1e300}, "interval"),
    ({"start_s": -HUGE}, "interval"),
    ({"end_s": HUGE}, "interval"),
]


@pytest.mark.parametrize("changes, rule", REFUSED)
def test_a_reservation_is_validated(changes: dict[str, Any], rule: str | None) -> None:
    world = server(count=2)
    state = world.scheduler.state
    state.begin(world.now)
    refusal = check_reserve(state, wish(**changes))
    assert (refusal.rule if refusal else None) == rule
    assert refusal is None or refusal.message


def test_nothing_is_reserved_where_the_free_memory_is_unknown() -> None:
    world = World(gpus(1), planners=(Says(),), settings=CORE, warm=False)
    world.submit(1)
    state = world.scheduler.state
    state.begin(world.now)
    refusal = check_reserve(state, wish(devices=(("GPU-0", GIB),)))
    assert refusal.message == "its free memory is unknown"
    assert (refusal.rule, refusal.device, refusal.needed) == ("memory", "GPU-0", GIB)


def test_a_planner_that_is_not_configured_has_no_reservations() -> None:
    world = server()
    assert propose(world, wish()) is None
    assert len(list(world.scheduler.state.planned)) == 0


WRONG = [
    {"devices": [("GPU-0", None)]},
    {"devices": (("GPU-0",),)},
    {"devices": ((0, None),)},
    {"devices": (("GPU-0", 1.5),)},
    {"devices": (("GPU-0", True),)},
    {"start_s": float("nan")},
    {"end_s": float("inf")},
    {"end_s": None},
    {"job_id": None},
]


@pytest.mark.parametrize("changes", WRONG)
def test_an_answer_of_the_wrong_shape_lets_the_planner_rest(changes: dict[str, Any]) -> None:
    world = server(wish(), wish(**changes))
    assert world.scheduler.errors(world.now)
    assert len(list(world.scheduler.state.planned)) == 0, "nor does it keep the first one"


def test_a_planner_has_a_limited_number_of_owners() -> None:
    jobs = range(1, MOST_OWNERS + 6)
    world = server(*(wish(job, devices=(("GPU-0", 1),)) for job in jobs), waiting=len(jobs))
    assert len(list(world.scheduler.state.planned)) == MOST_OWNERS
    rejected = [why.rule for _, why in world.decisions[-1].rejections]
    assert rejected == ["count"] * 5
    world.read()
    assert len(list(world.scheduler.state.planned)) == MOST_OWNERS


def test_two_planners_do_not_share_an_owner_nor_a_device() -> None:
    other = Says((wish(1, start_s=90_000.0, end_s=1e5), wish(2)), name="other")
    world = World(gpus(1), planners=(Says((wish(1),)), other), settings=CORE)
    world.submit(1)
    world.submit(1)
    world.read()
    assert {r.planner for r in world.scheduler.state.planned} == {"says"}
    assert [why.rule for _, why in world.decisions[-1].rejections] == ["owner", "memory"]


def test_the_last_proposal_for_an_owner_counts() -> None:
    world = server(wish(), wish(devices=(("GPU-1", GIB),)), count=2)
    (mine,) = world.scheduler.state.planned
    assert (mine.device, mine.mib) == ("GPU-1", GIB)
    assert set(world.stored) == {mine.key}


def test_the_timer_of_an_end_outlives_many_others() -> None:
    world = server(wish())
    (mine,) = world.scheduler.state.planned
    for number in range(600):
        world.scheduler.state.wake(Timer(1e6 + number, KILL, 999, 999))
    world.read()
    assert len(world.scheduler.state.timers) < 600
    wake_at = world.decisions[-1].wake_at
    assert mine.until is not None and wake_at is not None and wake_at <= mine.until.boot_s
