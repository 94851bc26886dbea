"""A proposal that the core refuses is told, until the job starts or the proposal is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.proposals import Preempt, Proposal, Start, TakeCheckpointNow
from radrm.core.records import Job, Node, Placement, Refusal, Share
from radrm.core.rules import Plan
from radrm.core.state.pauses import RefusedProposals
from radrm.core.view import View
from radrm.core.words import Collocation, JobState
from radrm.structs import replace
from tests.contract.broken import Watched
from tests.world import GIB, World, default_planner, gpus


@dataclass
class Toy:
    """Proposes what it is told about each job; it gives no reasons."""

    make: Callable[[View, Job], Proposal | None]
    starts_jobs: bool = True
    name: str = "toy"
    version: int = 1
    reasons: Sequence[Refusal] = ()
    listens: frozenset[type[ev.Event]] = frozenset({ev.JobSubmitted, ev.Tick})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        jobs = view.waiting() if self.starts_jobs else (job for job, _ in view.running())
        found = [self.make(view, job) for job in list(jobs)]
        return Plan([each for each in found if each is not None])

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return self.reasons


def preempt(view: View, job: Job) -> Proposal:
    return Preempt(job_id=job.id)


def without_cpus(view: View, job: Job) -> Proposal:
    """A start that forgets the CPUs."""
    device = view.devices()[0]
    share = Share(device.uuid, device.capacity_mib)
    return Start(job_id=job.id, placement=Placement((share,), Collocation.EXCLUSIVE))


def correct(view: View, job: Job) -> Proposal:
    wrong = without_cpus(view, job)
    assert isinstance(wrong, Start)
    share = replace(wrong.placement.shares[0], cpus=job.spec.roles[0].needs.cpus)
    return Start(job_id=job.id, placement=Placement((share,), Collocation.EXCLUSIVE))


def world_of(toy: Toy) -> World:
    planners = (toy,) if toy.starts_jobs else (default_planner(), toy)
    return Watched(gpus(1), planners=planners, node=Node(cpus=8))


def told(world: World, job: Job) -> list[str]:
    found = world.scheduler.why_waiting(job.id, world.now)
    found += world.scheduler.why_size(job.id, world.now)
    return [each.message for each in found if each.rule not in ("planner", "next")]


def lasting(world: World) -> list[str]:
    return list(world.scheduler.errors(world.now, refused=True))


def test_a_planner_that_forgets_the_cpus_is_named() -> None:
    world = world_of(Toy(without_cpus))
    job = world.submit(GIB, cpus=2)
    world.pass_time(3)
    assert world.state(job) is JobState.PENDING
    ((_, refusal),) = world.decisions[-1].rejections
    (why,) = told(world, job)
    assert "toy" in why and "start" in why and refusal.rule in why and refusal.message in why
    assert "2" in why, "what it needs"
    assert refusal.planner == "toy" and lasting(world) == []
    world.pass_time(30)
    (line,) = lasting(world)
    assert f"job {job.id}" in line and refusal.message in line
    assert world.scheduler.errors(world.now) == (), "the rule does not rest"


def test_it_is_forgotten_when_the_job_starts() -> None:
    toy = Toy(without_cpus)
    world = world_of(toy)
    job = world.submit(GIB, cpus=2)
    world.pass_time(30)
    assert lasting(world)
    toy.make = correct
    world.pass_time(1)
    assert world.state(job) is JobState.RUNNING and lasting(world) == []
    assert told(world, job) == []


def test_it_is_forgotten_when_the_job_ends() -> None:
    world = world_of(Toy(without_cpus))
    job = world.submit(GIB, cpus=2)
    world.pass_time(30)
    world.cancel(job)
    assert lasting(world) == []


def test_what_is_refused_for_a_running_job_is_told_too() -> None:
    toy = Toy(lambda view, job: TakeCheckpointNow(job_id=job.id), starts_jobs=False)
    world = world_of(toy)
    job = world.submit(GIB)
    world.pass_time(1)
    (why,) = told(world, job)
    assert "toy proposed a checkpoint" in why
    world.pass_time(30)
    assert len(lasting(world)) == 1, "it was refused again"
    toy.make = lambda view, job: None
    world.pass_time(30)
    assert len(lasting(world)) == 1, "it may propose it again"
    world.pass_time(60)
    assert lasting(world) == [] and told(world, job) == []


@pytest.mark.parametrize("starts", [False, True])
def test_a_refusal_that_is_not_repeated_is_not_lasting(starts: bool) -> None:
    toy = Toy(without_cpus if starts else preempt, starts_jobs=starts)
    world = world_of(toy)
    job = world.submit(GIB, cpus=2)
    world.pass_time(1)
    toy.make = lambda view, job: None
    world.pass_time(30)
    assert told(world, job) and lasting(world) == []
    world.pass_time(3600)
    assert lasting(world) == []
    assert bool(told(world, job)) is starts, "nothing else explains why it waits"


def test_what_else_explains_the_waiting_comes_before_an_old_refusal() -> None:
    toy = Toy(without_cpus)
    world = world_of(toy)
    job = world.submit(GIB, cpus=2)
    world.pass_time(1)
    toy.make, toy.reasons = (lambda view, job: None), (Refusal("fit", "no room"),)
    assert len(told(world, job)) == 2
    world.pass_time(3600)
    assert told(world, job) == ["no room"]


def test_two_refusals_an_hour_apart_are_not_lasting() -> None:
    toy = Toy(preempt, starts_jobs=False)
    world = world_of(toy)
    world.submit(GIB)
    world.pass_time(1)
    toy.make = lambda view, job: None
    world.pass_time(3600)
    toy.make = preempt
    world.pass_time(1)
    assert lasting(world) == []


def test_a_start_whose_planner_is_not_called_again_stays_its_last_word() -> None:
    toy = Toy(without_cpus, listens=frozenset({ev.JobSubmitted}))
    world = world_of(toy)
    job = world.submit(GIB, cpus=2)
    world.pass_time(3600)
    (line,) = lasting(world)
    assert f"job {job.id}" in line and "1h00m" in line and told(world, job)


def test_memory_is_bounded() -> None:
    refused = RefusedProposals()
    why = Refusal("job", "there is none")
    for job_id in range(2 * RefusedProposals.MOST):
        refused.note("toy", Preempt(job_id=job_id), why, 0.0)
    assert refused.of(0, 1.0) == () and refused.of(2 * RefusedProposals.MOST - 1, 1.0)
    assert sum(bool(refused.of(i, 1.0)) for i in range(2 * refused.MOST)) == refused.MOST
