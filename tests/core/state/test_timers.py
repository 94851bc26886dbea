"""Whatever waits for a moment has a timer for it, however many others wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core.records import Instant, Job
from radrm.core.settings import CoreSettings
from radrm.core.state.timers import AT_ONCE, BEGIN, ESTIMATE, KILL, Timer, Timers
from radrm.core.words import JobState
from tests.contract.lives.awaited import all_that_waits_has_an_end
from tests.world import EPOCH_S, World, gpus

MANY = 300
"""More than the number of timers below which none is removed."""
BEGINS_S = EPOCH_S + 1000.0 + 3600.0
SETTINGS = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, gpuless_at_once=MANY)


def world_of_many() -> World:
    return World(gpus(1), settings=SETTINGS)


def submit(world: World, count: int = MANY, **spec: Any) -> list[Job]:
    made = [world.submit(gpus=0, **spec) for _ in range(count)]
    all_that_waits_has_an_end(world)
    return made


def states(world: World, jobs: list[Job]) -> set[JobState]:
    return {world.state(job) for job in jobs}


def test_every_job_begins_at_its_moment() -> None:
    world = world_of_many()
    jobs = submit(world, begin_s=BEGINS_S)
    world.pass_time(3600.0)
    assert states(world, jobs) == {JobState.RUNNING}


def test_every_failed_job_is_retried() -> None:
    world = world_of_many()
    jobs = submit(world, retries=1)
    for job in jobs:
        world.end(job, 1)
    all_that_waits_has_an_end(world)
    assert states(world, jobs) == {JobState.PENDING}
    world.pass_time(SETTINGS.retry_s)
    assert states(world, jobs) == {JobState.RUNNING}


def test_every_job_that_came_to_nothing_starts_again() -> None:
    world = world_of_many()
    jobs = submit(world, requeue=True)
    for _ in range(2):
        for job in jobs:
            world.end(job, lost="killed")
        all_that_waits_has_an_end(world)
    assert states(world, jobs) == {JobState.PENDING}
    world.pass_time(SETTINGS.retry_most_s)
    assert states(world, jobs) == {JobState.RUNNING}


def test_no_job_waits_for_an_answer_of_the_estimators_for_ever() -> None:
    world = world_of_many()
    jobs = submit(world, estimating=True)
    world.pass_time(SETTINGS.estimate_limit_s)
    assert states(world, jobs) == {JobState.RUNNING}


@pytest.mark.parametrize("obeys", [True, False])
def test_every_attempt_is_stopped_at_its_limit(obeys: bool) -> None:
    world = world_of_many()
    jobs = submit(world, time_limit_s=60.0)
    world.obey = obeys
    world.pass_time(60.0)
    all_that_waits_has_an_end(world)
    if not obeys:
        assert states(world, jobs) == {JobState.STOPPING}
        world.pass_time(SETTINGS.grace_s)
        assert len([a for a in world.actions if isinstance(a, act.Kill)]) == MANY
        return
    assert states(world, jobs) == {JobState.TIMEOUT}


def test_timers_of_jobs_that_have_ended_do_not_pile_up() -> None:
    world = world_of_many()
    for _ in range(20):
        for job in submit(world, 50, time_limit_s=86_400.0):
            world.end(job)
    assert len(world.scheduler.state.timers) < 600


def test_a_restart_sets_the_timers_of_all() -> None:
    world = world_of_many()
    submit(world, begin_s=BEGINS_S)
    world.restart()
    all_that_waits_has_an_end(world)


@pytest.mark.parametrize("waits", ["begin", "pause"])
def test_a_restart_long_after_the_moments_of_thousands_forgets_none(waits: str) -> None:
    """More timers are due then than one step takes."""
    world = World(gpus(1), settings=replace(SETTINGS, gpuless_at_once=4 * MANY))
    begin_s = BEGINS_S if waits == "begin" else None
    jobs = [world.submit(gpus=0, begin_s=begin_s, retries=1) for _ in range(4 * MANY)]
    for job in jobs if waits == "pause" else ():
        world.end(job, 1)
    assert states(world, jobs) == {JobState.PENDING}
    world.boot_s += 7200.0
    world.restart()
    for _ in range(3):
        all_that_waits_has_an_end(world)
        world.pass_time(1.0)
    assert states(world, jobs) == {JobState.RUNNING}


# ------------------------------------------------------------------ a clock that is set


class Clocked(World):
    """A world whose date can be set."""

    ahead_s = 0.0

    @property
    def now(self) -> Instant:
        return Instant(self.boot_s, EPOCH_S + self.boot_s + self.ahead_s)


@pytest.mark.parametrize("at", [3600.0, 3601.0, 1e6])
def test_a_clock_that_is_set_past_the_moment_begins_the_job(at: float) -> None:
    world = Clocked(gpus(1))
    job = world.submit(gpus=0, begin_s=BEGINS_S)
    world.ahead_s = at
    world.read()
    assert world.state(job) is JobState.RUNNING


def test_a_clock_that_is_set_forward_and_not_past_it_brings_it_nearer() -> None:
    world = Clocked(gpus(1))
    job = world.submit(gpus=0, begin_s=BEGINS_S)
    world.ahead_s = 3000.0
    world.read()
    assert world.state(job) is JobState.PENDING
    assert world.decisions[-1].wake_at == pytest.approx(world.boot_s + 600.0)
    all_that_waits_has_an_end(world)


def test_a_clock_that_runs_a_little_fast_sets_the_timers_once_a_second_of_it() -> None:
    world = Clocked(gpus(1))
    world.submit(gpus=0, begin_s=BEGINS_S)
    for _ in range(200):
        world.ahead_s += 0.1
        world.pass_time(1.0)
        all_that_waits_has_an_end(world)
    assert len(world.scheduler.state.timers) < 40


# ------------------------------------------------------------------ the heap alone


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 5)), max_size=60))
def test_only_unwanted_timers_are_removed(made: list[tuple[float, int]]) -> None:
    timers = Timers(few=4)
    for boot_s, job_id in made:
        timers.add(Timer(boot_s, BEGIN, job_id))
        timers.tidy(lambda timer: timer.job_id % 2 == 1, -1.0)
    left: list[Timer] = []
    while found := timers.take_due(1e6):
        left += found
    wanted = {Timer(boot_s, BEGIN, job_id) for boot_s, job_id in made if job_id % 2 == 1}
    assert wanted <= set(left)
    assert left == sorted(left)


@pytest.mark.parametrize("what", [ESTIMATE, KILL])
def test_a_timer_that_is_due_at_once_comes_first(what: str) -> None:
    timers = Timers()
    timers.add(Timer(5.0, what, 1))
    timers.add(Timer(AT_ONCE, what, 2))
    assert [each.job_id for each in timers.take_due(10.0)] == [2, 1]
    assert timers.next_s is None
