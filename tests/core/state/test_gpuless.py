"""Jobs without a GPU: how many run, whose are next, and what a full line costs the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.events import calls_during
from radrm.core import events as ev
from radrm.core.records import Job, Node
from radrm.core.rules import Order, Planner, SlowPlanner
from radrm.core.words import JobState
from radrm.planners.backfill import Backfill
from radrm.planners.deadline import Deadline
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from radrm.published.andreas import Andreas
from tests.core.placements import CORE
from tests.examples import some
from tests.world import GIB, ORDERS, World, default_planner, gpus

STARTERS: tuple[Planner, ...] = (
    default_planner(Magm()),
    Backfill(Magm(), Exclusive()),
    Deadline(Magm(), Exclusive()),
)
PENDING, RUNNING = JobState.PENDING, JobState.RUNNING


def server(most: int, planner: Planner | SlowPlanner | None = None, **more: object) -> World:
    core = replace(CORE, gpuless_at_once=most)
    return World(gpus(1), planners=(planner or STARTERS[0],), settings=core, **more)


def submit(world: World, uid: int = 1, **spec: object) -> Job:
    return world.submit(gpus=0, uid=uid, user=f"u{uid}", **spec)


def running(world: World) -> list[int]:
    """The users of the jobs that run, by id of the job."""
    return [job.spec.uid for job in world.jobs.values() if job.state is RUNNING]


@pytest.mark.parametrize("planner", (*STARTERS, Andreas()), ids=lambda each: str(each.name))
@pytest.mark.parametrize(
    "most, submitted, expected",
    [
        (2, (1, 1, 1), [1, 1]),
        (2, (1, 1, 1, 2), [1, 1, 2]),  # endless jobs of one user keep nobody waiting
        (2, (1, 1, 2, 2, 3), [1, 1, 2, 3]),
        (3, (1, 2, 2, 1), [1, 2, 2]),
        (1, (1, 2, 3), [1, 2, 3]),
        (0, (1, 2), []),
    ],
)
def test_a_user_who_runs_none_starts_one_beyond_the_limit(
    planner: Planner | SlowPlanner, most: int, submitted: tuple[int, ...], expected: list[int]
) -> None:
    world = server(most, planner)
    for uid in submitted:
        submit(world, uid)
        world.pass_time(2.0)  # a slow planner makes its next plan
    assert running(world) == expected
    assert not [each for d in world.decisions for each in d.rejections], "none is proposed in vain"


def test_who_is_next_when_a_place_is_free() -> None:
    world = server(2)
    mine = [submit(world) for _ in range(4)]
    theirs = [submit(world, 2) for _ in range(2)]
    assert running(world) == [1, 1, 2]
    world.end(mine[0])
    assert running(world) == [1, 2], "two run, and each user runs one"
    world.end(theirs[0])
    assert running(world) == [1, 1, 2], "the order has the place, the turn of the other is beyond"
    assert world.state(theirs[1]) is RUNNING


@pytest.mark.parametrize("planner", STARTERS, ids=lambda planner: str(planner.name))
def test_explain_says_who_has_the_places(planner: Planner) -> None:
    world = server(2, planner, node=Node("localhost", cpus=4.0))
    first, second, waiting = (submit(world, cpus=1) for _ in range(3))
    (why,) = world.scheduler.why_waiting(waiting.id, world.now)
    assert why.rule == "gpuless"
    assert "is 2 (" in why.message and "run, 2 of them of u1" in why.message
    other = submit(world, 2, cpus=3)
    rules = {each.rule for each in world.scheduler.why_waiting(other.id, world.now)}
    assert "gpuless" not in rules, "it has a place, and waits for CPUs"
    for job in (first, second):
        world.end(job)
    assert world.state(other) is RUNNING


def test_a_job_that_has_no_place_keeps_no_running_job_small() -> None:
    world = server(1)
    submit(world)
    submit(world)
    view = world.scheduler.view
    assert view.head(gpuless=True) is None and not view.any_waiting
    assert list(view.waiting(gpuless=True)) == []
    assert world.scheduler.snapshot.waiting == 1, "it waits all the same"


Moves = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 20)),
        st.tuples(st.just("hold"), st.integers(0, 20)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=some(60))
@given(st.integers(1, 3), st.sampled_from(STARTERS), st.sampled_from(ORDERS), Moves)
def test_nobody_waits_for_the_jobs_of_others_alone(
    most: int, planner: Planner, order: Order, moves: list[tuple[str, int]]
) -> None:
    world = server(most, planner, order=order)
    for what, pick in moves:
        alive = [job for job in world.jobs.values() if job.state is RUNNING]
        waiting = [job for job in world.jobs.values() if job.state is PENDING]
        if what == "submit":
            submit(world, pick)
        elif what == "end" and alive:
            world.end(alive[pick % len(alive)])
        elif what == "hold" and waiting:
            job = waiting[pick % len(waiting)]
            world.hold(job, not job.held)
        elif what == "restart":
            world.restart(
                *(
                    ev.AttemptStarted(at=world.now, job_id=a.job_id, serial=a.serial)
                    for a in world.attempts.values()
                    if a.ended is None
                )
            )
        users = running(world)
        assert len(users) <= max(most, most + len(set(users)) - 1)
        ready = [j for j in world.jobs.values() if j.state is PENDING and not j.held]
        assert all(job.spec.uid in users for job in ready), "a user who runs none waits"
        assert not ready or len(users) >= most, "a place stays empty"
        for job in ready:
            assert [r.rule for r in world.scheduler.why_waiting(job.id, world.now)] == ["gpuless"]


def _costs(world: World, user: int) -> list[int]:
    """The calls of a submission, a cancel, a round of readings and a wake-up."""
    job = submit(world, user)
    return [
        calls_during(lambda: submit(world, user)),
        calls_during(lambda: world.step(ev.CancelRequested(at=world.now, job_id=job.id, by="ada"))),
        calls_during(world.read),
        calls_during(lambda: world.step(ev.Tick(at=world.now))),
    ]


@pytest.mark.parametrize("planner", STARTERS, ids=lambda planner: str(planner.name))
def test_a_full_line_costs_what_an_empty_one_costs(planner: Planner) -> None:
    def costs(waiting: int) -> list[int]:
        world = server(2, planner)
        for _ in range(2 + waiting):
            submit(world)
        return _costs(world, 1)

    costs(1)
    for short, long in zip(costs(1), costs(300), strict=True):
        assert long <= short * 1.1 + 20


@pytest.mark.parametrize("planner", STARTERS, ids=lambda planner: str(planner.name))
def test_paused_launches_cost_no_search(planner: Planner) -> None:
    def costs(waiting: int) -> list[int]:
        world = server(400, planner)
        world.scheduler.state.launch_error = "the disk is full"
        for _ in range(waiting):
            submit(world)
            world.submit(GIB)
        assert not world.decisions[-1].rejections, "nothing is proposed in vain"
        return _costs(world, 1)

    costs(1)
    for short, long in zip(costs(1), costs(120), strict=True):
        assert long <= short * 1.1 + 20
