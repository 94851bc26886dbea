"""`andreas` beside GPUs that are reserved for users, or that leave."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.words import JobState
from radrm.published.andreas import Andreas
from radrm.structs import replace
from tests.contract.broken import Watched
from tests.core.reservations.servers import ADA, BOB, HOUR_S, reserve
from tests.world import GIB, World, gpus


def world_of(count: int = 2, **rule: Any) -> World:
    return Watched(gpus(count), planners=(Andreas(max_iterations=20, **rule),))


def pass_seconds(world: World, seconds: int = 3) -> None:
    for _ in range(seconds):
        world.pass_time(1.0)


def submit(world: World, uid: int = BOB, **spec: Any) -> Job:
    return world.submit(GIB, uid=uid, user={ADA: "ada", BOB: "bob"}[uid], **spec)


@pytest.mark.parametrize("method", ["randomized", "greedy", "fifo"])
def test_a_job_starts_at_once_beside_a_reserved_gpu(method: str) -> None:
    world = world_of(method=method)
    reserve(world, [0])
    job = submit(world)
    pass_seconds(world)
    assert world.where(job) == ("GPU-1",)
    mine = submit(world, ADA)
    pass_seconds(world)
    assert world.where(mine) == ("GPU-0",)


def test_a_short_job_may_use_what_is_reserved_for_later() -> None:
    world = world_of()
    reserve(world, [0], start_s=HOUR_S, end_s=2 * HOUR_S)
    long, short = submit(world), submit(world, time_limit_s=600.0)
    pass_seconds(world)
    assert [world.where(job) for job in (long, short)] == [("GPU-1",), ("GPU-0",)]


def test_a_plan_follows_a_reservation_that_is_made_and_cancelled() -> None:
    world = world_of()
    first = submit(world)
    pass_seconds(world)
    (taken,) = world.where(first)
    made = reserve(world, [1 - int(taken[-1])])
    second = submit(world)
    pass_seconds(world, 45)
    assert world.state(second) is JobState.PENDING
    world.step(ev.UnreserveRequested(at=world.now, reservation_id=made.id, by="root"))
    pass_seconds(world)
    assert world.state(second) is JobState.RUNNING


def test_users_of_a_reservation_may_have_its_gpus_together_with_others() -> None:
    world = world_of(3)
    reserve(world, [0])
    wide = submit(world, ADA, gpus=3)
    pass_seconds(world)
    assert len(world.where(wide)) == 3


def test_a_job_that_runs_when_a_reservation_begins_runs_on() -> None:
    world = world_of(1)
    job = submit(world, time_limit_s=7200.0)
    pass_seconds(world, 15)
    reserve(world, [0], start_s=60.0)
    pass_seconds(world, 400)
    assert (world.state(job), world.jobs[job.id].attempts) == (JobState.RUNNING, 1)


def test_a_job_starts_at_once_beside_a_gpu_that_leaves() -> None:
    world = world_of()
    leaves = replace(world.devices[0], available_until=world.now.wall_s + 600)
    world.devices = (leaves, world.devices[1])
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    long, short = submit(world), submit(world, time_limit_s=300.0)
    pass_seconds(world)
    assert [world.where(job) for job in (long, short)] == [("GPU-1",), ("GPU-0",)]
