"""`--max-fails`: after so many failures the rest of an array is held, until it is released."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radrm.core.decision import Warned
from radrm.core.records import Dependency, Job
from radrm.core.words import Condition, JobState
from radrm.structs import replace
from tests.world import GIB, World, gpus

PENDING, RUNNING = JobState.PENDING, JobState.RUNNING


def test_the_rest_is_held_after_so_many_failures_and_a_release_counts_anew() -> None:
    world = World(gpus(1))
    jobs = world.submit_array(8, GIB, at_once=2, max_fails=2, smact=0.1)
    other = world.submit(GIB, smact=0.1)
    world.end(jobs[0], 1)
    assert world.state(jobs[2]) is RUNNING, "one failure is not too many"
    world.end(jobs[1], 1)
    told = _told(world)
    assert [world.state(j) for j in jobs[2:5]] == [RUNNING, PENDING, PENDING]
    assert world.why(jobs[3]) == ["max-fails"] and world.state(other) is RUNNING
    assert len(told) == 1 and told[0].kind == "held"
    assert "2 elements failed (--max-fails=2)" in told[0].text
    assert f"radrm release {jobs[0].id}" in told[0].text
    world.end(jobs[2], 1)
    assert world.state(jobs[3]) is PENDING and _told(world) == told, "its user is told once"
    world.hold(jobs[5], False)
    assert [world.state(j) for j in jobs[3:6]] == [RUNNING, RUNNING, PENDING]
    world.end(jobs[3], 1)
    assert world.state(jobs[5]) is RUNNING, "the count begins anew"
    world.end(jobs[4], 1)
    assert world.why(jobs[6]) == ["max-fails"]


def test_only_failures_soon_after_the_start_count() -> None:
    world = World(gpus(1))
    jobs = world.submit_array(4, GIB, at_once=1, max_fails=1, fails_within_s=60.0, smact=0.1)
    world.pass_time(61)
    world.end(jobs[0], 1)
    assert world.state(jobs[1]) is RUNNING
    world.pass_time(59)
    world.end(jobs[1], 1)
    assert world.why(jobs[2]) == ["max-fails"]
    (why,) = world.scheduler.why_waiting(jobs[2].id, world.now)
    assert "1 element failed within 1m00s of starting (--max-fails=1)" in why.message


def test_cancels_and_retries_do_not_count() -> None:
    world = World(gpus(1))
    jobs = world.submit_array(4, GIB, at_once=1, max_fails=1, smact=0.1, retries=1)
    world.cancel(jobs[0])
    world.end(jobs[1], 1)
    assert world.why(jobs[1]) == ["pause"] and world.state(jobs[2]) is RUNNING


def test_an_element_that_runs_again_brings_no_failures_with_it() -> None:
    world = World(gpus(1))
    first, second = world.submit_array(2, GIB, max_fails=1, smact=0.1)
    world.end(first, 1)
    world.end(second)  # it had the count
    world.requeue(second)
    assert world.state(second) is RUNNING


def test_elements_that_never_ran_do_not_count() -> None:
    world = World(gpus(1))
    first = world.submit(GIB, smact=0.1)
    after = (Dependency(first.id, Condition.OK),)
    jobs = world.submit_array(3, GIB, max_fails=1, after=after)
    world.end(first, 1)
    assert all(world.state(job) is JobState.FAILED for job in jobs) and not _told(world)


def test_failures_count_although_the_next_elements_come_later() -> None:
    world = World(gpus(1))
    (first,) = world.submit_array(1, GIB, max_fails=2, smact=0.1)
    assert first.array is not None
    for index in (1, 2):
        world.end(world.next_id - 1, 1)
        last = world.submit(GIB, array=replace(first.array, index=index), smact=0.1)
    assert world.why(last) == ["max-fails"]
    world.hold(last, False)
    assert world.state(last) is RUNNING


def _told(world: World) -> list[Warned]:
    return [warned for decision in world.decisions for warned in decision.warned]


def _fails(world: World, job: Job) -> int:
    element = world.jobs[job.id].array
    return 0 if element is None else element.fails


MOVES = st.lists(st.sampled_from(["end", "fail", "cancel", "release"]), max_size=14)


@given(moves=MOVES, restart=st.integers(0, 14), most=st.integers(1, 3))
def test_a_restart_changes_nothing_and_the_count_is_right(
    moves: list[str], restart: int, most: int
) -> None:
    world = World(gpus(1))
    jobs = world.submit_array(12, GIB, at_once=2, max_fails=most, smact=0.1)
    fails = 0
    for number, move in enumerate(moves):
        if number == restart:
            world.restart()
        live = [job for job in jobs if world.state(job).live]
        waiting = [job for job in jobs if world.state(job).waiting]
        if move == "release" and waiting:
            world.hold(waiting[0], False)
            fails = 0 if fails >= most else fails
        elif move == "cancel" and waiting:
            world.cancel(waiting[-1])  # the last one carries the count
        elif move in ("end", "fail") and live:
            world.end(live[0], 1 if move == "fail" else 0)
            fails += move == "fail"
        waiting = [job for job in jobs if world.state(job).waiting]
        carriers = [job for job in jobs if not world.state(job).final and _fails(world, job)]
        left = any(not world.state(job).final for job in jobs)
        assert [_fails(world, job) for job in carriers] == [fails] * bool(fails and left)
        stopped = [job for job in waiting if world.why(job) == ["max-fails"]]
        assert stopped == (waiting if fails >= most else [])
