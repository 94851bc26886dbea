"""Arrays: elements are jobs, and `%N` lets so many of them be live at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.events import calls_during
from radrm.core.words import JobState
from tests.world import GIB, World, gpus


def live(world: World) -> int:
    return sum(1 for j in world.jobs.values() if j.state.live)


def test_a_throttled_array_runs_so_many_at_once() -> None:
    world = World(gpus(2))
    elements = world.submit_array(5, GIB, at_once=2, smact=0.1)
    assert [world.state(e) for e in elements[:2]] == [JobState.RUNNING] * 2
    assert world.why(elements[2]) == ["array"]
    world.end(elements[1])
    assert world.state(elements[2]) is JobState.RUNNING
    assert world.state(elements[3]) is JobState.PENDING


def test_others_pass_a_throttled_array() -> None:
    world = World(gpus(1))
    world.submit_array(3, GIB, at_once=1, smact=0.1)
    other = world.submit(GIB, smact=0.1)
    assert world.state(other) is JobState.RUNNING


def test_a_held_element_gives_its_place_to_the_next() -> None:
    world = World(gpus(1))
    blocker = world.submit(30 * GIB, smact=0.9)
    first, second = world.submit_array(2, 20 * GIB, at_once=1)
    world.hold(first)
    assert world.why(first) == ["held"]
    assert world.scheduler.state.lines.gpu.head() == second.id
    world.hold(first, False)
    assert world.why(second) == ["array"], "places go by the order of service, not by who came"
    world.end(blocker)
    world.end(first)
    assert world.state(second) is JobState.RUNNING


def test_a_recovering_element_keeps_its_place() -> None:
    from radrm.core.records import OutOfMemory

    world = World(gpus(2))
    first, second = world.submit_array(2, GIB, at_once=1, smact=0.1)
    world.submit(GIB, smact=0.1)
    world.end(first, 1, oom=OutOfMemory("test", 2000))
    assert not world.state(first).final
    assert world.state(second) is JobState.PENDING


@given(
    at_once=st.integers(1, 4),
    moves=st.lists(st.tuples(st.sampled_from(["end", "hold", "free", "again"]), st.integers(0, 9))),
    restart=st.integers(0, 30),
)
def test_the_limit_holds_whatever_happens_and_all_run(
    at_once: int, moves: list[tuple[str, int]], restart: int
) -> None:
    world = World(gpus(3))
    elements = world.submit_array(10, GIB, at_once=at_once, smact=0.05)
    for number, (what, which) in enumerate(moves):
        job = world.jobs[elements[which].id]
        if what == "end" and world.live(job):
            world.end(job)
        elif what in ("hold", "free") and job.state.waiting:
            world.hold(job, what == "hold")
        elif what == "again" and (job.state.final or job.state is JobState.RUNNING):
            world.requeue(job)
        if number == restart:
            world.restart()
        assert live(world) <= at_once
    for element in elements:
        if world.jobs[element.id].state.waiting:
            world.hold(element, False)
    while running := [e for e in elements if world.live(e)]:
        assert live(world) <= at_once
        world.end(running[0])
    assert all(world.state(e).final for e in elements)
    assert not world.scheduler.state.queue.arrays


def test_an_end_costs_the_same_in_a_long_array() -> None:
    def cost(length: int) -> int:
        world = World(gpus(1))
        elements = world.submit_array(length, GIB, at_once=1, smact=0.1)
        return calls_during(lambda: world.end(elements[0]))

    assert cost(2000) <= 1.3 * cost(20)
