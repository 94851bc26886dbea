"""The baselines of ANDREAS, and what holds in any life of a server under `andreas`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.proposals import Migrate, Preempt
from radrm.core.words import CheckpointKind, Collocation, JobState
from radrm.orders import SmallestWork
from radrm.published.andreas import Andreas
from tests.contract.broken import Watched
from tests.examples import some
from tests.published.systems.test_andreas import (
    CAN_SAVE,
    FEW,
    Mute,
    due_in,
    mixed,
    pass_seconds,
    world_of,
)
from tests.world import GIB, gpus

# ------------------------------------------------------------------ the baselines


@pytest.mark.parametrize(
    ("method", "following"), [("fifo", [2, 3, 4]), ("edf", [4, 3, 2]), ("ps", [3, 2, 4])]
)
def test_the_baselines_have_their_orders_and_stop_nothing(
    method: str, following: list[int]
) -> None:
    world = world_of(method=method)
    world.submit(8 * GIB, checkpoint=CAN_SAVE, duration_s=900)
    pass_seconds(world, 3)
    for due_s, weight in ((900, 2.0), (800, 3.0), (100, 1.0)):
        world.submit(
            8 * GIB, checkpoint=CAN_SAVE, duration_s=90, due_s=due_in(world, due_s), weight=weight
        )
    started = []
    for _ in range(4):
        pass_seconds(world, 20)
        (running,) = [job for job in world.jobs.values() if job.state is JobState.RUNNING]
        started.append(running.id)
        world.end(running)
    assert started == [1, *following]
    assert all(job.attempts == 1 for job in world.jobs.values())


# ------------------------------------------------------------------ properties


class Server(Watched):
    """Notes for which jobs the planner asked for a stop."""

    def decide(self, event: ev.Event) -> Decision:
        if isinstance(event, ev.PlanReady):
            for each in event.proposals:
                if isinstance(each, (Preempt, Migrate)):
                    job = self.jobs[each.job_id]
                    assert job.spec.checkpoint.kind is not CheckpointKind.NONE
        decision = super().decide(event)
        held: list[str] = []
        for _, attempt in self.scheduler.snapshot.running:
            assert attempt.placement.collocation is Collocation.EXCLUSIVE
            held += attempt.placement.devices
        assert len(held) == len(set(held)), "GPUs are dedicated"
        return decision


jobs = st.fixed_dictionaries(
    {
        "gpus": st.integers(0, 2),
        "due": st.none() | st.integers(-1000, 5000),
        "weight": st.sampled_from([0.5, 1.0, 4.0]),
        "saves": st.booleans(),
        "requeue": st.booleans(),
        "priority": st.integers(0, 1),
        "duration_s": st.none() | st.integers(10, 4000),
    }
)
moves = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5), jobs), min_size=2, max_size=12)


@settings(max_examples=some(40))
@given(st.integers(0, 2), st.integers(1, 2), moves, st.sampled_from(["randomized", "greedy"]))
def test_no_job_that_cannot_save_is_stopped_and_all_start_in_the_end(
    v100: int, t4: int, life: list[tuple[int, int, dict[str, Any]]], method: str
) -> None:
    world = Server(mixed(v100, t4), planners=(Andreas(max_iterations=20, method=method),))
    for seconds, pick, given_ in life:
        job = dict(given_)
        due, saves, count = job.pop("due"), job.pop("saves"), job.pop("gpus")
        if due is not None:
            job["due_s"] = due_in(world, due)
        if saves:
            job["checkpoint"] = CAN_SAVE
        world.submit(GIB, gpus=min(count, max(v100, t4)), **job)
        world.pass_time(seconds)
        live = [a.job_id for a in world.attempts.values() if a.ended is None]
        if pick < len(live):
            world.end(live[pick])
    for _ in range(200):
        pass_seconds(world, 2)
        live = [a.job_id for a in world.attempts.values() if a.ended is None]
        if live:
            world.end(live[0])
        elif not world.scheduler.snapshot.waiting:
            break
    assert all(job.state.final for job in world.jobs.values())
    assert world.said == []


def test_nothing_is_said_of_an_order_that_does_not_count() -> None:
    world = Watched(gpus(1), planners=(Andreas(max_iterations=FEW),), order=SmallestWork())
    world.submit(8 * GIB, duration_s=600)
    waits = world.submit(8 * GIB, duration_s=600)
    pass_seconds(world, 3)
    assert world.why(waits) == ["plan", "taken", "count"]


def test_while_a_job_saves_the_planner_waits_for_its_answer() -> None:
    """Each look plans in a process of its own."""
    world = Mute(gpus(1), planners=(Andreas(max_iterations=FEW),))
    world.submit(8 * GIB, checkpoint=CAN_SAVE, duration_s=50_000)
    pass_seconds(world)
    world.submit(8 * GIB, due_s=due_in(world, 100), duration_s=600)
    pass_seconds(world, 3)
    looks = sum(isinstance(action, act.Think) for action in world.actions)
    pass_seconds(world, 25)
    assert any(isinstance(action, act.TakeCheckpoint) for action in world.actions)
    assert sum(isinstance(action, act.Think) for action in world.actions) <= looks + 1
