"""Why a running job does not grow: the planners in use say it, and none of them can do harm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.records import Job, Needs, Refusal, Role
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import JobState, Resizing
from tests.world import GIB, World, default_planner, gpus

WORKERS = (Role(count_min=1, count_max=4, needs=Needs(gpus=1)),)


@dataclass(frozen=True)
class Grows:
    """A planner that says why a job has its size. `answer` is what it says."""

    answer: Callable[[Job], Any]
    name: str = "grows"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset()

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan()

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()

    def why_size(self, view: View, job: Job) -> Any:
        return self.answer(job)


def reasons(answer: Callable[[Job], Any], **spec: Any) -> tuple[World, list[tuple[Any, ...]]]:
    world = World(gpus(4), planners=(default_planner(), Grows(answer)))
    spec = {"roles": WORKERS, "resizing": Resizing.LIVE, **spec}
    job = world.submit(30 * GIB, smact=0.5, **spec)
    found = world.scheduler.why_size(job.id, world.now)
    return world, [(each.planner, each.rule, each.message) for each in found]


def test_the_planner_that_resizes_is_asked_and_others_are_not() -> None:
    _, found = reasons(lambda job: [Refusal("gain", f"job {job.id} gains too little")])
    assert found == [("grows", "gain", "job 1 gains too little")]


def test_without_such_a_planner_the_setting_is_named() -> None:
    world = World(gpus(4))
    job = world.submit(30 * GIB, smact=0.5, roles=WORKERS, resizing=Resizing.LIVE)
    (found,) = world.scheduler.why_size(job.id, world.now)
    assert 'planner = ["auto", "elastic"]' in found.message


def test_a_job_of_a_fixed_size_needs_no_reason() -> None:
    _, found = reasons(lambda job: [Refusal("gain", "no")], roles=(Role(),), resizing=Resizing.NONE)
    assert found == []


def test_a_waiting_job_has_other_reasons() -> None:
    world, _ = reasons(lambda job: [Refusal("gain", "no")])
    many = (Role(count_min=4, count_max=4, needs=Needs(gpus=1)),)
    waits = world.submit(30 * GIB, roles=many, resizing=Resizing.LIVE)
    assert world.state(waits) is JobState.PENDING
    assert world.scheduler.why_size(waits.id, world.now) == ()
    assert world.scheduler.why_size(99, world.now) == ()


def test_a_planner_that_cannot_say_why_is_named() -> None:
    _, found = reasons(lambda job: 1 / 0)
    assert found[0][:2] == ("grows", "rule") and "ZeroDivisionError" in found[0][2]
    _, found = reasons(lambda job: ["no refusal"])
    assert "its explanation is not made of refusals" in found[0][2]
