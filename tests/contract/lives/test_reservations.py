"""Nobody ever starts where it is reserved for others, whatever the planner; and nobody starves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.events import calls_during
from radrm.core import events as ev
from radrm.core.records import Attempt, Device, Job, UserReservation
from radrm.core.rules import Order, Planner, SlowPlanner
from radrm.elastic.planner import Elastic
from radrm.planners.backfill import Backfill
from radrm.planners.deadline import Deadline
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from radrm.published.andreas import Andreas
from radrm.published.dlrover import DLRover
from radrm.published.nearchus import Nearchus
from radrm.published.specon import SpeCon
from tests.contract.lives.test_properties import (
    Move,
    check,
    others,
    play,
    servers,
    submits,
)
from tests.core.placements import CORE
from tests.examples import some
from tests.world import GIB, ORDERS, World, default_planner, gpus

POLICY = Magm(margin_mib=0, min_free_mib=0)
STARTERS: tuple[Planner | SlowPlanner, ...] = (
    default_planner(POLICY),
    Backfill(Magm(), Exclusive()),
    Deadline(Magm(), Exclusive()),
    DLRover(Exclusive(), Exclusive()),
    Nearchus(Exclusive(), Exclusive()),
    Andreas(max_iterations=5),
)
BESIDE: tuple[Planner, ...] = (Elastic(Magm(), Exclusive()), SpeCon(Magm(), Exclusive()))

timed = st.builds(
    Move,
    kind=st.just("timed"),
    uid=st.sampled_from([1000, 1001]),
    gpus=st.sampled_from([1, 1, 2]),
    seconds=st.sampled_from([50.0, 100.0, 150.0, 300.0]),
)
reserves = st.builds(
    Move,
    kind=st.sampled_from(["reserve", "reserve", "unreserve"]),
    pick=st.integers(0, 50),
    uid=st.sampled_from([1000, 1001, -1]),
    exclusive=st.booleans(),
    seconds=st.sampled_from([0.0, 0.0, 60.0, 140.0, 310.0]),
)
reserved_lives = st.lists(st.one_of(timed, reserves, submits, others), min_size=8, max_size=40)


def wanted(world: World, move: Move) -> UserReservation:
    """A reservation that a move asks for; the uid -1 stands for maintenance."""
    start_s = world.now.wall_s + move.seconds
    return UserReservation(
        id=0,
        devices=(world.devices[move.pick % len(world.devices)].uuid,),
        start_s=start_s,
        end_s=start_s + 60.0 + 5.0 * move.pick,
        uids=(move.uid,) if move.uid >= 0 else (),
        by_uid=move.uid,
        own=move.exclusive and move.uid >= 0,
        preempt=move.pick % 3 == 0,
    )


def play_more(world: World, move: Move) -> None:
    if move.kind == "timed":
        world.submit(
            GIB,
            smact=0.05,
            gpus=move.gpus,
            uid=move.uid,
            time_limit_s=move.seconds,
            requeue=bool(move.gpus % 2),
        )
    elif move.kind == "reserve":
        world.step(ev.ReserveRequested(at=world.now, reservation=wanted(world, move)))
    elif move.kind == "unreserve":
        number = 1 + move.pick % max(1, len(world.for_users))
        world.step(ev.UnreserveRequested(at=world.now, reservation_id=number, by="root"))
    else:
        play(world, move)


def wrong_start(world: World, job: Job, attempt: Attempt) -> UserReservation | None:
    """The reservation for others that a job meets which has started now, by the records alone."""
    start_s = attempt.launched.wall_s
    for each in world.for_users.values():
        gone = each.ended_s is not None and each.ended_s <= start_s
        there = set(each.devices) & set(attempt.devices)
        if gone or not there or job.spec.uid in each.uids:
            continue
        # Only a time limit is certain.
        ends_s = start_s + 1e-6 if job.limit_s is None else start_s + job.limit_s
        if each.meets(start_s, ends_s):
            return each
    return None


@settings(max_examples=some(60))
@given(servers, st.sampled_from(STARTERS), st.booleans(), st.sampled_from(ORDERS), reserved_lives)
def test_nobody_starts_where_it_is_reserved_for_others_and_every_job_ends(
    devices: tuple[Device, ...],
    planner: Planner,
    beside: bool,
    order: Order,
    life: list[Move],
) -> None:
    planners = (planner, *(BESIDE if beside and planner.name == "strict" else ()))
    core = replace(CORE, reservation_unused_s=120.0, stale_after_s=1e9)
    world = World(devices, planners=planners, order=order, settings=core)
    known: set[tuple[int, str]] = set()

    def obeys() -> None:
        check_all: Callable[[World], None] = check
        check_all(world)
        for attempt in world.attempts.values():
            places = {(attempt.serial, uuid) for uuid in attempt.devices}
            if not places <= known and attempt.ended is None:
                job = world.jobs[attempt.job_id]
                assert wrong_start(world, job, attempt) is None
            known.update(places)

    for move in life:
        play_more(world, move)
        obeys()
    for device in devices:
        world.step(ev.DrainRequested(at=world.now, device=device.uuid, reason=None))
    for job in list(world.jobs.values()):
        world.hold(job, False)
    for _ in range(3 * len(world.jobs) + 10):
        world.pass_time(200.0)
        obeys()
        for attempt in [a for a in world.attempts.values() if a.ended is None]:
            world.end(attempt.job_id)
    # It gives a job no GPUs of two kinds.
    assert planner.name == "andreas" or all(job.state.final for job in world.jobs.values())


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order.name))
def test_an_event_costs_the_same_however_many_stand_aside(order: Order) -> None:
    def costs(length: int) -> list[int]:
        world = World(gpus(2), policy=Exclusive(), order=order, settings=CORE)
        found = UserReservation(0, ("GPU-0",), world.now.wall_s, world.now.wall_s + 1e6, uids=(7,))
        world.step(ev.ReserveRequested(at=world.now, reservation=found))
        first = world.submit(GIB, uid=7)
        for number in range(length):
            world.submit(GIB, gpus=2, uid=number % 3, time_limit_s=100.0 + number)
        return [
            calls_during(lambda: world.submit(GIB, gpus=2)),
            calls_during(lambda: world.end(first)),
            calls_during(lambda: world.read()),
        ]

    costs(4)
    for short, long in zip(costs(10), costs(1000), strict=True):
        assert long <= short * 1.1 + 20
