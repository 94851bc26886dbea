"""Users take turns under smallest-work: work counts times the recent use of its user."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from radrm.config import Config
from radrm.core.records import Job, Use, UserUse
from radrm.core.settings import CoreSettings
from radrm.orders import Fair, SmallestWork
from radrm.policies.exclusive import Exclusive
from radrm.wiring import make_order
from tests.orders.test_ageing import line, submitted
from tests.world import World, gpus

HOUR_S = 3600.0
ANN, BOB, CARL = ({"user": name, "uid": uid} for name, uid in (("ann", 1), ("bob", 2), ("carl", 3)))


def server(count: int = 1, **changes: Any) -> World:
    return World(
        gpus(count),
        policy=Exclusive(),
        order=SmallestWork(max_wait_s=4 * HOUR_S, **changes),
        settings=CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9),
    )


def after_use(hours: float, **changes: Any) -> World:
    """A server of which ann has the GPU, for hours already."""
    world = server(**changes)
    submitted(world, 99 * HOUR_S, **ANN)
    world.pass_time(hours * HOUR_S)
    return world


def use(gpu_s: float, gpus: float = 0.0, idle_s: float = inf, **more: Any) -> UserUse:
    return UserUse(1, "ann", Use(gpu_s, gpus), idle_s=idle_s, **more)


TURNS = [
    (SmallestWork(), use(0), (0.0, HOUR_S)),
    (SmallestWork(), use(100, 2, idle_s=5.0), (1.0, 100 + 3 * HOUR_S)),
    (SmallestWork(max_wait_s=60), use(0, idle_s=60.0), (0.0, HOUR_S)),
    (SmallestWork(shares=Fair(ahead_s=0)), use(0), (0.0, 1.0)),
    (SmallestWork(shares=Fair(weights={"ann": 4.0})), use(0), (0.0, HOUR_S / 4)),
    (
        SmallestWork(shares=Fair(by_group=True, ahead_s=10, group_weights={"staff": 2})),
        use(10, group="staff", of_group=Use(90)),
        (0.0, 20.0 * 50.0),
    ),
]


@pytest.mark.parametrize(("order", "given", "turn"), TURNS)
def test_a_turn(order: SmallestWork, given: UserUse, turn: tuple[float, float]) -> None:
    assert order.turn(given) == turn


def test_the_weights_are_those_of_fair() -> None:
    config = Config(order="smallest-work", orders={"fair": {"weights": {"ann": 2.0}}})
    order = make_order(config)
    assert isinstance(order, SmallestWork) and order.shares.weights == {"ann": 2.0}


def test_a_sweep_does_not_hold_the_jobs_of_others() -> None:
    world = after_use(1)
    sweep = [submitted(world, HOUR_S, **ANN).id for _ in range(3)]
    his = submitted(world, 2 * HOUR_S, **BOB).id
    assert line(world) == [his, *sweep], "half of ann's use, twice the work, and he holds none"
    assert [world.scheduler.state.lines.gpu.position(i) for i in (his, *sweep)] == [0, 1, 2, 3]


def test_a_small_job_does_not_wait_for_hours_of_work_of_one_who_has_used_less() -> None:
    world = after_use(1)
    long, small = submitted(world, 9 * HOUR_S, **BOB).id, submitted(world, 60, **ANN).id
    assert line(world) == [small, long]


def test_a_sweep_that_is_old_lets_others_pass_until_it_starves() -> None:
    world = after_use(1)
    sweep = [submitted(world, HOUR_S, **ANN).id for _ in range(3)]
    world.pass_time(2.5 * HOUR_S)
    world.end(world.jobs[1])
    younger = submitted(world, 60, **ANN).id
    assert world.where(sweep[0]), "the first of the sweep starts, and is ann's latest start"
    world.pass_time(2 * HOUR_S)
    his = submitted(world, 0.5 * HOUR_S, **BOB).id
    assert line(world) == [his, *sweep[1:], younger], "old: before ann's younger, not before bob's"
    world.pass_time(2.1 * HOUR_S)
    assert line(world)[:2] == sweep[1:], "no job of ann's has started for 4 h"
    world.restart()
    assert line(world)[:2] == sweep[1:]
    world.end(sweep[0])
    assert world.where(sweep[1])
    assert line(world)[0] == his, "it was one job's turn"
    world.restart()
    assert line(world)[0] == his, "the start of ann's job is stored"


def test_one_user_has_the_smallest_work_first() -> None:
    world = after_use(1)
    jobs = [submitted(world, hours * HOUR_S, **ANN) for hours in (3, 1, 2)]
    assert line(world) == [jobs[1].id, jobs[2].id, jobs[0].id]


def test_a_job_says_whose_turn_it_is() -> None:
    world = after_use(1)
    hers, his = submitted(world, HOUR_S, **ANN), submitted(world, HOUR_S, **BOB)

    def said(job: Job) -> list[str]:
        found = world.scheduler.why_waiting(job.id, world.now)
        return [each.message for each in found if each.rule == "turn"]

    assert said(his) == []
    assert said(hers) == [
        "users take turns by recent GPU time: ann has used 1.0 h, bob (first now) 0.0 h"
    ]
