"""The simulated server with attempts that move to other devices."""

from __future__ import annotations

import pytest

from radrm.core.words import Collocation
from radrm.interference.model import Demand
from radrm.lab.simulator.courses import Course
from radrm.lab.simulator.elastic.loop import ElasticWorld
from radrm.lab.simulator.loop import in_order
from radrm.lab.simulator.world import SimulatedAttempt
from radrm.simulated.spec import parse


def course(memory_mib: float, work_s: float = 1000.0) -> Course:
    """It computes and holds all its memory at once."""
    return Course(0.0, 0.0, 0.0, work_s, memory_mib, memory_mib, memory_mib, Demand(0.3))


def launch(world: ElasticWorld, job: int, memory_mib: float, *devices: int) -> SimulatedAttempt:
    attempt = world.launch(job, course(memory_mib), devices, Collocation.MPS, mps=True)
    world.begin(attempt, None, 0.0)
    return attempt


@pytest.fixture
def world() -> ElasticWorld:
    return ElasticWorld(parse("sim:3xA100-40GB"), None, None)


def until(world: ElasticWorld, when_s: float) -> None:
    for _ in in_order([world], when_s):
        pass
    world.advance_to(when_s)


def test_a_moved_attempt_frees_what_it_leaves_and_keeps_its_work(world: ElasticWorld) -> None:
    attempt = launch(world, 0, 20000.0, 0)
    until(world, 100.0)
    world.stand_still(attempt, True)
    assert world.move(attempt, (1, 2), 2.0, attempt.course) is None
    world.stand_still(attempt, False)
    assert [gpu.used_mib for gpu in world.gpus] == [0, 20000, 20000]
    assert [len(gpu.attempts) for gpu in world.gpus] == [0, 1, 1]
    assert world.gpus[0].activity == 0 < world.gpus[1].activity
    until(world, 150.0)
    assert world.work_done(attempt) == pytest.approx(0.2)
    assert world.next_s == pytest.approx(150 + 800 / 2)


def test_a_new_worker_that_finds_no_memory_ends_the_attempt(world: ElasticWorld) -> None:
    attempt, other = launch(world, 0, 20000.0, 0), launch(world, 1, 30000.0, 1)
    until(world, 10.0)
    world.stand_still(attempt, True)
    assert world.move(attempt, (0, 1), 2.0, attempt.course) == 20000
    assert attempt.over and not other.over
    assert [gpu.used_mib for gpu in world.gpus] == [0, 30000, 0]


def test_neighbours_are_as_fast_as_alone_when_an_attempt_has_left(world: ElasticWorld) -> None:
    attempt, other = launch(world, 0, 9000.0, 0, 1), launch(world, 1, 9000.0, 1)
    until(world, 10.0)
    beside = other.speed
    world.stand_still(attempt, True)
    world.move(attempt, (0,), 0.5, attempt.course)
    world.stand_still(attempt, False)
    assert beside < other.speed == 1.0
    assert attempt.speed == 1.0 and attempt.joint is None


def test_a_new_pace_moves_the_end(world: ElasticWorld) -> None:
    attempt = launch(world, 0, 9000.0, 0)
    until(world, 500.0)
    world.retime(attempt, 5.0, attempt.course)
    assert world.next_s == pytest.approx(600)
