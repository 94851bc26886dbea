"""Maintenance through `step`: a planner reserves devices, and jobs that end before pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from radrm.core.words import Collocation, JobState
from radrm.policies.sharing import Magm, RoundRobin
from tests.core.placements import propose
from tests.world import GIB, World, default_planner, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9)
HOUR_S = 3600.0


@dataclass(frozen=True)
class Maintenance:
    """Two hours on these devices, from boot-time second `start_s` on."""

    devices: tuple[tuple[str, int | None], ...] = (("GPU-0", None),)
    start_s: float = 1000.0 + HOUR_S
    name: str = "maintenance"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.DevicesSeen, ev.ReadingsTaken})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        wish = Reserve(
            name="new driver",
            devices=self.devices,
            start_s=self.start_s,
            end_s=self.start_s + 2 * HOUR_S,
        )
        return Plan((wish,))

    def explain(self, view: View, job: Job) -> tuple[Refusal, ...]:
        return ()


def server(count: int = 1, *planners: Any, **settings: Any) -> World:
    """The planner that starts jobs comes first: it has seen nothing of what is reserved."""
    starter = default_planner(settings.pop("policy", Magm(margin_mib=0, min_free_mib=0)))
    return World(
        gpus(count),
        planners=(starter, *(planners or (Maintenance(),))),
        settings=replace(CORE, **settings),
    )


def test_jobs_that_end_before_pass() -> None:
    world = server()
    short, long = world.submit(GIB, time_limit_s=HOUR_S), world.submit(GIB, time_limit_s=HOUR_S + 1)
    assert (world.state(short), world.state(long)) == (JobState.RUNNING, JobState.PENDING)
    (why, *_) = world.scheduler.why_waiting(long.id, world.now)
    assert why.message == (
        "needs 1.0G, 0M free: reserved for maintenance new driver in 1h00m; "
        "it can start with a time limit below 1h00m"
    )
    world.boot_s += HOUR_S + 600.0
    world.read()
    (why, *_) = world.scheduler.why_waiting(long.id, world.now)
    assert why.message == (
        "needs 1.0G, 0M free: reserved for maintenance new driver for 1h50m more"
    )


def test_a_job_that_wants_an_idle_device_hears_who_has_reserved_it() -> None:
    world = server(1, Maintenance((("GPU-0", GIB),)))
    job = world.submit(GIB, collocation=Collocation.EXCLUSIVE)
    (why, *_) = world.scheduler.why_waiting(job.id, world.now)
    assert why.rule == "not idle"
    assert why.message == "needs an idle device; reserved for maintenance new driver in 1h00m"


def test_a_job_that_lasts_longer_than_its_limit_keeps_its_memory() -> None:
    world = server(1, Maintenance((("GPU-0", GIB),)))
    first = world.submit(20 * GIB, time_limit_s=100.0, smact=0.1)
    world.obey = False
    world.pass_time(150.0)
    assert world.state(first) is JobState.STOPPING
    second = world.submit(30 * GIB, smact=0.1)
    assert world.state(second) is JobState.PENDING
    world.end(first)
    world.read()
    assert world.state(second) is JobState.LAUNCHING


def test_a_job_of_unknown_need_gets_no_less_than_its_policy_reserves() -> None:
    for left, starts in ((2 * GIB, False), (6 * GIB, True)):
        world = server(1, Maintenance((("GPU-0", 40 * GIB - left),)))
        job = world.submit(None)
        assert (world.state(job) is JobState.RUNNING) is starts


def test_the_line_moves_when_the_maintenance_is_over() -> None:
    world = server()
    job = world.submit(GIB)
    assert world.state(job) is JobState.PENDING
    world.boot_s += 3 * HOUR_S
    world.step(ev.Tick(at=world.now))
    assert world.state(job) is JobState.RUNNING
    assert not any(r.kind.planned for r in world.stored.values())


def test_jobs_that_run_are_no_obstacle_to_maintenance() -> None:
    world = server(1, Maintenance(start_s=1000.0 + 2 * HOUR_S))
    world.submit(30 * GIB, time_limit_s=HOUR_S)
    unlimited = World(gpus(1), planners=(default_planner(), Maintenance()), settings=CORE)
    for each in (world, unlimited):
        assert len(list(each.scheduler.state.planned)) == 1
    running = server(1, Maintenance((("GPU-0", 35 * GIB),)))
    job = running.submit(5 * GIB)
    assert running.state(job) is JobState.RUNNING, "it needs what is left"
    second = running.submit(GIB)
    assert running.state(second) is JobState.PENDING


@pytest.mark.parametrize("mib, starts", [(None, False), (30 * GIB, False), (10 * GIB, True)])
def test_a_policy_without_conditions_heeds_what_no_job_can_have(
    mib: int | None, starts: bool
) -> None:
    world = server(1, Maintenance((("GPU-0", mib),)), policy=RoundRobin(), overcommit=True)
    job = world.submit(20 * GIB)
    assert (world.state(job) is JobState.RUNNING) is starts


# ------------------------------------------------------------------ what is refused


def wish(**changes: Any) -> Reserve:
    usual: dict[str, Any] = {"name": "x", "devices": (("GPU-0", None),)}
    return Reserve(**{**usual, "start_s": 2000.0, "end_s": 3000.0, **changes})


HUGE = 10**400
REFUSED: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"devices": (("GPU-0", GIB), ("GPU-1", None))}, None),
    ({"start_s": 0}, None),
    ({"name": ""}, "owner"),
    ({"job_id": 1}, "owner"),
    ({"name": "", "job_id": 99}, "job"),
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
    world = server(2, Maintenance(()))
    state = world.scheduler.state
    state.begin(world.now)
    refusal = check_reserve(state, wish(**changes))
    assert (refusal.rule if refusal else None) == rule
    assert refusal is None or refusal.message


def test_a_planner_that_is_not_configured_has_no_reservations() -> None:
    world = server(1, Maintenance(()))
    assert propose(world, wish()) is None
    assert len(list(world.scheduler.state.planned)) == 0


WRONG = [
    {"name": 5},
    {"name": "a" * 101},
    {"name": "two\nlines"},
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


@dataclass(frozen=True)
class Says(Maintenance):
    says: tuple[Proposal, ...] = ()

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self.says)


@pytest.mark.parametrize("changes", WRONG)
def test_an_answer_of_the_wrong_shape_lets_the_planner_rest(changes: dict[str, Any]) -> None:
    world = server(1, Says(says=(wish(), wish(**changes))))
    assert world.scheduler.errors(world.now)
    assert len(list(world.scheduler.state.planned)) == 0, "nor does it keep the first one"
    assert world.state(world.submit(GIB)) is JobState.RUNNING


def test_a_planner_has_a_limited_number_of_owners() -> None:
    says = tuple(wish(name=f"n{i}", devices=(("GPU-0", 1),)) for i in range(MOST_OWNERS + 5))
    world = server(1, Says(says=says))
    assert len(list(world.scheduler.state.planned)) == MOST_OWNERS
    rejected = [why.rule for _, why in world.decisions[-1].rejections]
    assert rejected == ["count"] * 5
    world.read()
    assert len(list(world.scheduler.state.planned)) == MOST_OWNERS


def test_two_planners_do_not_share_an_owner_nor_a_device() -> None:
    other = Says(name="other", says=(wish(name="new driver", start_s=90_000.0, end_s=1e5), wish()))
    world = server(1, Maintenance(start_s=2000.0), other)
    assert {r.planner for r in world.scheduler.state.planned} == {"maintenance"}
    assert [why.rule for _, why in world.decisions[-1].rejections] == ["owner", "memory"]


def test_the_last_proposal_for_an_owner_counts() -> None:
    first, last = wish(devices=(("GPU-0", None), ("GPU-1", None))), wish(devices=(("GPU-1", GIB),))
    world = server(2, Says(says=(first, last)))
    (mine,) = world.scheduler.state.planned
    assert (mine.device, mine.mib) == ("GPU-1", GIB)
    assert set(world.stored) == {mine.key}


def test_the_timer_of_an_end_outlives_many_others() -> None:
    world = server()
    (mine,) = world.scheduler.state.planned
    for number in range(600):
        world.scheduler.state.wake(Timer(1e6 + number, KILL, 999, 999))
    world.read()
    assert len(world.scheduler.state.timers) < 600
    wake_at = world.decisions[-1].wake_at
    assert mine.until is not None and wake_at is not None and wake_at <= mine.until.boot_s
