"""A job's place in the queue: that of its submission, or of the requeue that made it new."""

from __future__ import annotations

from radrm.core.records import ArrayElement
from radrm.core.words import JobState
from radrm.orders import Fifo
from radrm.structs import replace
from tests.world import GIB, World, gpus


def line(world: World) -> list[int]:
    return list(world.scheduler.state.lines.gpu)


def full() -> World:
    """One GPU, taken by job 1."""
    world = World(gpus(1))
    world.submit(40 * GIB, source="declared")
    return world


def test_a_job_that_has_ended_waits_behind_those_that_were_there_when_it_was_requeued() -> None:
    world = full()
    old = world.submit(30 * GIB)
    world.cancel(old)
    there = [world.submit(30 * GIB).id for _ in range(3)]
    again = world.requeue(old)
    later = world.submit(30 * GIB)
    assert line(world) == [*there, old.id, later.id]
    assert again.submitted == old.submitted, "statistics know when it was submitted"
    world.restart()
    assert line(world) == [*there, old.id, later.id]


def test_jobs_requeued_one_after_another_stand_in_that_order() -> None:
    world = full()
    jobs = [world.submit(30 * GIB) for _ in range(3)]
    for job in jobs:
        world.cancel(job)
    for job in reversed(jobs):
        world.boot_s += 1.0
        world.requeue(job)
    assert line(world) == [job.id for job in reversed(jobs)]


def test_requeued_twice_it_stands_where_the_second_put_it() -> None:
    world = full()
    old, other = world.submit(30 * GIB), world.submit(30 * GIB)
    for _ in range(2):
        world.cancel(old)
        world.boot_s += 1.0
        world.requeue(old)
        world.submit(30 * GIB)
    assert line(world) == [other.id, 4, old.id, 5]


def test_a_job_that_comes_back_by_itself_keeps_its_place() -> None:
    for come_back in ("lost", "retried", "preempted"):
        world = World(gpus(1))
        first = world.submit(40 * GIB, source="declared", retries=1, requeue=True)
        second = world.submit(30 * GIB)
        if come_back == "preempted":
            world.hold(second)
            world.requeue(first)
            world.hold(second, False)
            assert world.state(first) is JobState.RUNNING, "its place was the first"
            continue
        world.end(first, 1, lost="killed" if come_back == "lost" else None)
        place = [first.id, second.id]
        assert sorted(place, key=lambda i: Fifo().key(world.jobs[i], world.now)) == place


def test_requeued_elements_of_an_array_keep_their_order_and_its_limit() -> None:
    world = full()
    elements = world.submit_array(3, 30 * GIB, at_once=2)
    for job in elements:
        world.cancel(job)
    other = world.submit(30 * GIB)
    for job in elements:
        world.requeue(job)
    assert line(world) == [other.id, elements[0].id, elements[1].id]
    assert isinstance(elements[0].array, ArrayElement)


def test_after_a_restart_the_place_is_still_behind_everybody() -> None:
    """A new scheduler knows unfinished jobs only; those are all that it can stand behind."""
    world = full()
    old, there = world.submit(30 * GIB), world.submit(30 * GIB)
    world.cancel(old)
    world.restart()
    world.requeue(old)
    assert line(world) == [there.id, old.id]
    world.cancel(there)
    world.restart()
    later = replace(world.submit(30 * GIB))
    assert line(world) == [old.id, later.id]
