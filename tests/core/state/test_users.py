"""Limits of running jobs and GPUs per user: who starts, who stands aside, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Start
from radrm.core.records import Job, Role
from radrm.core.words import JobState, Resizing
from radrm.policies.exclusive import Exclusive
from tests.core.elastic.test_requests import NODE, ask
from tests.core.elastic.workers import WORKERS, asked, resized, workers
from tests.core.placements import CORE, SAVES, WHOLE, Passive, on, propose
from tests.world import GIB, World, gpus


def world_with(count: int = 4, **limits: Any) -> World:
    return World(gpus(count), policy=Exclusive(), settings=replace(CORE, **limits), node=NODE)


def why(world: World, job: Job) -> str:
    return world.scheduler.why_waiting(job.id, world.now)[0].message


def test_a_user_runs_so_many_jobs_and_others_pass() -> None:
    world = world_with(user_running_jobs=2)
    mine = [world.submit(GIB, user="ada") for _ in range(4)]
    other = world.submit(GIB, uid=7, user="bob")
    assert [world.state(job) for job in mine[:2]] == [JobState.RUNNING] * 2
    assert world.state(other) is JobState.RUNNING
    assert why(world, mine[2]) == "user ada runs 2 jobs, the limit is 2 (limits.running_jobs)"
    world.end(mine[0])
    assert world.state(mine[2]) is JobState.RUNNING
    assert world.state(mine[3]) is JobState.PENDING


def test_gpus_of_a_user_and_smaller_jobs_that_fit() -> None:
    world = world_with(user_gpus=3)
    mine = [world.submit(GIB, gpus=count, user="ada") for count in (2, 2, 1)]
    assert [world.state(job) for job in mine] == [
        *(JobState.RUNNING, JobState.PENDING, JobState.RUNNING)
    ]
    said = "needs 2 GPUs, other jobs of ada use 3, the limit is 3 (limits.gpus)"
    assert why(world, mine[1]) == said
    world.end(mine[0])
    assert world.state(mine[1]) is JobState.RUNNING


def test_the_first_of_a_user_gets_the_place() -> None:
    world = world_with(1, user_running_jobs=1)
    world.submit(GIB, uid=7)
    first, second = (world.submit(GIB, user="ada") for _ in range(2))
    said = (
        f"user ada runs 0 of at most 1 jobs (limits.running_jobs), and job {first.id} comes first"
    )
    assert why(world, second) == said
    assert first.id in world.scheduler.state.lines
    world.hold(first)
    assert second.id in world.scheduler.state.lines


def test_the_first_of_a_user_gets_the_gpus() -> None:
    world = world_with(2, user_gpus=2)
    running = world.submit(GIB, user="ada")
    world.submit(GIB, uid=7)
    first, second = (world.submit(GIB, user="ada") for _ in range(2))
    said = f"user ada uses 1 of at most 2 GPUs (limits.gpus), and job {first.id} comes first"
    assert why(world, second) == said
    world.end(running)
    assert world.state(first) is JobState.RUNNING


def test_a_job_beyond_the_limit_fails_at_once() -> None:
    world = world_with(user_gpus=2)
    job = world.submit(GIB, gpus=3)
    assert world.jobs[job.id].state is JobState.FAILED
    assert world.jobs[job.id].reason == ("limits.gpus: it needs 3 GPUs, the limit is 2 per user")


def test_exempt_users_have_no_limit() -> None:
    world = world_with(user_gpus=1, user_running_jobs=1, exempt_users=(0,))
    jobs = [world.submit(GIB, uid=0, gpus=2) for _ in range(2)]
    assert [world.state(job) for job in jobs] == [JobState.RUNNING] * 2


def test_a_job_that_stands_aside_for_the_devices_takes_no_place() -> None:
    world = world_with(2, user_running_jobs=1)
    blocker = world.submit(GIB, uid=7)
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="test"))
    large = world.submit(GIB, gpus=2)
    small = [world.submit(GIB, gpus=2), world.submit(GIB)]
    world.end(blocker)
    assert world.state(small[1]) is JobState.RUNNING
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason=None))
    world.end(small[1])
    assert world.state(large) is JobState.RUNNING
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="test"))
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason=None))
    world.end(large)
    assert world.state(small[0]) is JobState.RUNNING


@pytest.mark.parametrize("live", [True, False])
def test_growth_by_resize_counts(live: bool) -> None:
    world = world_with(user_gpus=3)
    how = Resizing.LIVE if live else Resizing.RESTART
    spec: dict[str, Any] = {"roles": (Role(count_max=4),), "checkpoint": SAVES, "resizing": how}
    job = world.submit(GIB, user="ada", **spec)
    other = world.submit(GIB, user="ada")
    world.obey = False
    said = "needs 3 GPUs, other jobs of ada use 1, the limit is 3 (limits.gpus)"
    assert ask(world, job, main=3) == said
    assert ask(world, job, main=2) is None
    third = world.submit(GIB, user="ada")
    assert why(world, third) == (
        "needs 1 GPU, other jobs of ada use 3, the limit is 3 (limits.gpus)"
    )
    if live:
        resized(world, asked(world))
    world.end(other)
    assert world.state(third) in (JobState.RUNNING, JobState.LAUNCHING)


def test_a_migration_counts_once() -> None:
    world = world_with(2, user_gpus=1, user_running_jobs=1)
    job = world.submit(GIB, checkpoint=SAVES)
    second = world.submit(GIB)
    world.obey = False
    (there,) = world.where(job)
    target = next(d.uuid for d in world.devices if d.uuid != there)
    assert propose(world, Migrate(job_id=job.id, placement=on(target, mode=WHOLE))) is None
    assert world.scheduler.state.users.of(job.spec.uid).gpus == 1
    world.obey = True
    world.restart()
    assert world.scheduler.state.users.of(job.spec.uid).running == 1
    assert world.state(second) is JobState.PENDING


def test_a_planner_cannot_pass_a_limit() -> None:
    world = world_with(3, user_running_jobs=1)
    world.submit(GIB, user="ada")
    second = world.submit(GIB, user="ada")
    refusal = propose(world, Start(job_id=second.id, placement=on("GPU-2", mode=WHOLE)))
    assert refusal.rule == "limits.running_jobs"


def test_limits_that_were_lowered_stop_nothing_and_allow_smaller() -> None:
    world = world_with(user_gpus=4)
    spec: dict[str, Any] = {"roles": (Role(count_min=1, count_max=4),), "checkpoint": SAVES}
    job = world.submit(GIB, resizing=Resizing.LIVE, **spec)
    world.obey = False
    assert ask(world, job, main=3) is None
    resized(world, asked(world))
    world.settings = replace(world.settings, user_gpus=1)
    world.restart()
    assert world.state(job) is JobState.RUNNING
    before = len(world.actions)
    assert ask(world, job, main=2) is None
    assert isinstance(world.actions[before], act.Resize)
    assert ask(world, job, main=4) == "a migration or resize of it is under way"


def test_no_planner_starts_a_job_on_more_gpus_than_its_user_may_have() -> None:
    world = World(gpus(4), planners=(Passive(),), settings=replace(CORE, user_gpus=2))
    job = world.submit(GIB, user="ada", roles=WORKERS)
    refusal = propose(world, Start(job_id=job.id, placement=workers(0, 1, 2)))
    assert refusal.message == (
        "needs 3 GPUs, other jobs of ada use 0, the limit is 2 (limits.gpus)"
    )
    assert propose(world, Start(job_id=job.id, placement=workers(0, 1))) is None
