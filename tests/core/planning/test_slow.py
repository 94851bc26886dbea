"""Slow planners through `step`: one thought at a time, and what it misses is not carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.thinking import (
    SOONEST_S,
    Thought,
    deadline_s,
    ready,
    think,
    think_in_place,
)
from radrm.core.proposals import Preempt
from radrm.core.records import Checkpoint, Job
from radrm.core.rules import Plan
from radrm.core.snapshot import Snapshot
from radrm.core.view import View
from radrm.core.words import CheckpointKind, JobState
from radrm.structs import replace
from tests.contract.broken import Watched, lives, raising
from tests.contract.systems.slow import LISTENS, SlowAndreas, SlowStarter
from tests.contract.test_broken_planners import PLANS
from tests.world import EPOCH_S, GIB, World, default_planner, gpus

CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL)
SOON = EPOCH_S + 2000.0


class Later(Watched):
    """A host whose slow planners answer only when a test says so."""

    def _do(self, action: act.Action) -> None:
        if not isinstance(action, act.Think):
            super()._do(action)

    @property
    def thoughts(self) -> list[act.Think]:
        return [each for each in self.actions if isinstance(each, act.Think)]

    def look(self) -> Snapshot:
        """What a planner sees that begins now. It may be held, and sent."""
        return Snapshot.of(self.scheduler.snapshot.data(), self.order)

    def answer(self, thought: act.Think, snapshot: Snapshot | None = None) -> Any:
        found = snapshot or self.look()
        return self.step(think_in_place(self.rules.planners, thought, found, self.now))


def later(*planners: Any, count: int = 1) -> Later:
    return Later(gpus(count), planners=planners)


def test_a_slow_planner_starts_jobs_and_keeps_its_state() -> None:
    world = World(gpus(2), planners=(SlowStarter(),))
    jobs = [world.submit(GIB) for _ in range(3)]
    for _ in range(3):
        world.pass_time(1.0)
    assert [world.state(job) for job in jobs] == [JobState.RUNNING] * 2 + [JobState.PENDING]
    assert world.live(jobs[0]).planner == "slow-starter"
    plans = world.rule_states["planner", "slow-starter"].state["plans"]
    assert plans > 2
    world.restart()
    world.end(jobs[0])
    world.pass_time(1.0)
    assert world.state(jobs[2]) is JobState.RUNNING
    assert world.rule_states["planner", "slow-starter"].state["plans"] > plans


def test_one_thought_at_a_time_and_one_more_for_all_events_meanwhile() -> None:
    world = later(SlowStarter())
    first = world.thoughts[0]
    for _ in range(5):
        world.submit(GIB)
        world.pass_time(1.0)
    assert world.thoughts == [first]
    world.answer(first)
    assert len(world.thoughts) == 2
    world.answer(world.thoughts[1])
    world.pass_time(1.0)
    assert [action.number for action in world.thoughts] == [1, 2, 3], "a job has started: again"


def test_thoughts_are_a_second_apart() -> None:
    world = later(SlowStarter())
    world.pass_time(SOONEST_S)
    world.answer(world.thoughts[0])
    began, count = world.boot_s, len(world.thoughts)
    world.answer(world.thoughts[-1])
    world.submit(GIB)
    assert len(world.thoughts) == count
    wake_at = world.decisions[-1].wake_at
    assert wake_at == pytest.approx(began + SOONEST_S)
    world.boot_s = began + SOONEST_S
    world.step(ev.Tick(at=world.now))
    assert len(world.thoughts) == count + 1


def test_only_the_jobs_that_changed_meanwhile_are_left_out() -> None:
    world = later(default_planner(), SlowAndreas(), count=2)
    stays, edited = (world.submit(30 * GIB, checkpoint=CAN_SAVE) for _ in range(2))
    (thought, *_) = world.thoughts
    seen = world.look()
    world.report(stays, loss=1.0)
    world.used[stays.id] = 2 * GIB
    world.pass_time(70.0)
    assert world.edit(edited, priority=3) is None
    answer = Thought((Preempt(job_id=stays.id), Preempt(job_id=edited.id), Preempt(job_id=99)))
    decision = world.step(ready(thought, seen.version, answer, world.now))
    dropped = [(proposal.job_id, why.rule) for proposal, why in decision.rejections]
    assert dropped == [(edited.id, "stale"), (99, "stale")]
    assert world.attempts[stays.id, 1].stop is not None
    reason = world.attempts[stays.id, 1].reason
    assert reason == "preempted: the planner slow-andreas asked for a preemption"


def test_an_answer_that_never_comes_costs_a_rest() -> None:
    world = later(default_planner(), SlowAndreas())
    (first,) = world.thoughts
    world.pass_time(deadline_s(world.settings.think_s))
    (said,) = world.said
    assert "slow-andreas failed (it gave no plan in its time)" in said
    world.answer(first)
    assert ("planner", "slow-andreas") not in world.rule_states
    job = world.submit(GIB)
    assert world.state(job) is JobState.RUNNING and len(world.thoughts) == 1
    world.pass_time(world.settings.retry_s)
    world.pass_time(1.0)
    assert [action.number for action in world.thoughts] == [1, 2]
    world.answer(world.thoughts[1])
    assert world.rule_states["planner", "slow-andreas"].state == 1


def test_a_thought_that_the_host_cannot_begin_ends() -> None:
    world = later(SlowStarter())
    failed = ev.ActionFailed(at=world.now, action=world.thoughts[0], reason="no process")
    world.step(failed)
    assert "slow-starter failed (no process)" in world.said[0]
    world.step(failed)
    world.pass_time(world.settings.retry_s + 1)
    assert len(world.thoughts) == 2


def test_while_the_one_that_starts_jobs_rests_they_start_all_the_same() -> None:
    world = Later(gpus(2), planners=(SlowStarter(),), fallback=default_planner())
    job = world.submit(GIB)
    (refusal,) = world.scheduler.why_waiting(job.id, world.now)
    assert refusal.rule == "planning" and "slow-starter has been making a plan" in refusal.message
    world.step(ready(world.thoughts[0], 0, Thought(error="KeyError: 'x'"), world.now))
    assert world.state(job) is JobState.RUNNING, "in the same step"
    assert world.live(job).planner == "strict"
    assert "slow-starter failed (KeyError: 'x')" in world.said[0]
    assert "in the order of the queue" in world.said[0]


def test_after_a_restart_nothing_is_under_way() -> None:
    world = later(default_planner(), SlowAndreas())
    thought = world.thoughts[0]
    world.restart()
    assert len(world.thoughts) == 2, "it thinks again"
    world.answer(replace(thought, number=77))
    assert ("planner", "slow-andreas") not in world.rule_states
    world.answer(world.thoughts[1])
    assert world.rule_states["planner", "slow-andreas"].state == 1


@dataclass
class Slow:
    """A slow planner whose answer is what `make` makes."""

    make: Any = Plan
    name: str = "broken"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = LISTENS

    def think(self, view: View, state: Any) -> Plan:
        found: Plan = self.make()
        return found

    def explain(self, *_: Any) -> tuple[()]:
        return ()


@pytest.mark.parametrize("what", PLANS)
def test_nonsense_of_a_slow_planner_is_refused_too(what: str) -> None:
    world = Watched(gpus(2), planners=(default_planner(), Slow(PLANS[what])))
    lives(world)
    assert world.said[0].startswith("the planner broken failed (")
    assert ("planner", "broken") not in world.rule_states, "nothing of it is kept"
    assert think(Slow(PLANS[what]), world.scheduler.snapshot, None).error is not None


def test_two_that_listen_to_each_other_do_not_hold_the_moment() -> None:
    first, second = (
        Slow(name=name, listens=frozenset({ev.PlanReady, ev.JobSubmitted})) for name in "ab"
    )
    world = Watched(gpus(1), planners=(default_planner(), first, second))
    job = world.submit(GIB)
    for _ in range(5):
        world.pass_time(SOONEST_S)
    assert world.state(job) is JobState.RUNNING and world.said == []


def test_its_wake_up_has_it_think() -> None:
    world = Watched(gpus(1), planners=(default_planner(), Slow(lambda: Plan(wake_at=1300.0))))
    thoughts = sum(isinstance(action, act.Think) for action in world.actions)
    world.boot_s = 1300.0
    world.step(ev.Tick(at=world.now))
    assert sum(isinstance(action, act.Think) for action in world.actions) == thoughts + 1


def test_the_due_job_gets_the_gpu_of_a_patient_one() -> None:
    world = World(gpus(1), planners=(default_planner(), SlowAndreas()))
    patient = world.submit(30 * GIB, checkpoint=CAN_SAVE)
    urgent = world.submit(30 * GIB, due_s=SOON, priority=1)
    world.pass_time(SOONEST_S)
    assert world.state(urgent) is JobState.RUNNING
    assert world.state(patient) is JobState.PENDING


def test_a_planner_that_raises_while_it_says_its_version() -> None:
    class Versionless(Slow):
        version = property(lambda self: raising(KeyError("v"))())

        def __init__(self) -> None:
            self.name, self.make = "versionless", Plan

    world = Watched(gpus(2), planners=(default_planner(), Versionless()))
    lives(world)
    assert "the planner versionless failed (KeyError" in world.said[0]


def test_what_another_process_sees_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(gpus(2), planners=(default_planner(),))
    for _ in range(4):
        world.submit(30 * GIB)
    here = world.scheduler.snapshot
    there = Snapshot.of(here.data(), world.order)

    def facts(found: Snapshot) -> Any:
        jobs: list[Job] = sorted(found.jobs, key=lambda job: job.id)
        return (
            *(found.version, found.jobs_version, found.now, found.settings, jobs),
            *(found.lines, found.running, found.devices, found.waiting, found.aside, found.nodes),
            [(found.position(job), found.head(job), found.attempt(job.id)) for job in jobs],
        )

    assert facts(there) == facts(here)
