"""No user ever runs more jobs, or has more GPUs, than the limits allow; and nobody starves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.events import calls_during
from radrm.core import events as ev
from radrm.core.records import Device
from radrm.core.rules import Order, Planner
from radrm.core.words import JobState
from radrm.planners.backfill import Backfill
from radrm.planners.deadline import Deadline
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from tests.contract.lives.test_properties import Move, check, lives, play, servers
from tests.core.placements import CORE
from tests.examples import some
from tests.world import GIB, ORDERS, World, default_planner, gpus

PLANNERS: tuple[Planner, ...] = (
    default_planner(Magm(margin_mib=0, min_free_mib=0)),
    Backfill(Magm(), Exclusive()),
    Deadline(Magm(), Exclusive()),
)


def obeys(world: World, jobs: int, most_gpus: int, exempt: tuple[int, ...]) -> None:
    """The limits hold on the records alone, and nobody stands aside without need."""
    live = [(world.jobs[a.job_id], a) for a in world.attempts.values() if a.ended is None]
    for uid in {job.spec.uid for job in world.jobs.values()} - {*exempt}:
        mine = [attempt for job, attempt in live if job.spec.uid == uid]
        used = sum(len(attempt.placement.devices) for attempt in mine)
        assert len(mine) <= jobs and used <= most_gpus
        state = world.scheduler.state
        use = state.users.of(uid)
        waiting = [j for j in world.jobs.values() if j.spec.uid == uid and j.state.waiting]
        assert (use.queued, use.running, use.gpus) == (len(waiting), len(mine), used)
        for job in waiting:
            first = state.lines.next_of_user(job)
            room = state.users.room(uid, job.gpus)
            assert first is None or not room or first in state.lines, world.why(job)


@settings(max_examples=some(60))
@given(
    servers,
    st.sampled_from(PLANNERS),
    st.sampled_from(ORDERS),
    lives,
    st.integers(1, 3),
    st.integers(2, 4),
    st.sampled_from([(), (1001,)]),
)
def test_nobody_ever_exceeds_a_limit_and_every_job_ends(
    devices: tuple[Device, ...],
    planner: Planner,
    order: Order,
    life: list[Move],
    jobs: int,
    most_gpus: int,
    exempt: tuple[int, ...],
) -> None:
    limits = {"user_running_jobs": jobs, "user_gpus": most_gpus}
    core = replace(CORE, **limits, exempt_users=exempt)
    world = World(devices, planners=(planner,), order=order, settings=core)
    for move in life:
        play(world, move)
        check(world)
        obeys(world, jobs, most_gpus, core.exempt_users)
    for device in devices:
        world.step(ev.DrainRequested(at=world.now, device=device.uuid, reason=None))
    for job in list(world.jobs.values()):
        world.hold(job, False)
    for _ in range(3 * len(world.jobs) + 3):
        world.pass_time(200.0)
        for attempt in [a for a in world.attempts.values() if a.ended is None]:
            world.end(attempt.job_id)
            obeys(world, jobs, most_gpus, core.exempt_users)
    assert all(job.state.final for job in world.jobs.values())
    assert not world.scheduler.state.users.every()


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order.name))
def test_an_event_of_a_user_at_the_limit_costs_the_same_however_many_wait(order: Order) -> None:
    def costs(length: int) -> list[int]:
        core = replace(CORE, user_running_jobs=2, user_gpus=3)
        world = World(gpus(5), policy=Exclusive(), order=order, settings=core)
        mine = [world.submit(GIB, gpus=1 + number % 2) for number in range(length)]
        other = world.submit(GIB, uid=7, gpus=2)
        assert world.state(other) is JobState.RUNNING, world.why(other)
        return [
            calls_during(lambda: world.submit(GIB)),
            calls_during(lambda: world.end(mine[0])),
            calls_during(lambda: world.step(ev.Tick(at=world.now))),
        ]

    costs(4)
    for short, long in zip(costs(10), costs(1000), strict=True):
        assert long <= short * 1.1 + 20
