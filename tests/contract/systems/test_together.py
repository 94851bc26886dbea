"""Several planners at once: their order, their conflicts, their failures, and who decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.proposals import (
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
)
from radrm.core.records import Attempt, Checkpoint, Job, Placement, PlannerRequest, Refusal, Share
from radrm.core.rules import Plan, Planner
from radrm.core.view import View
from radrm.core.words import CheckpointKind, Collocation, JobState, Outcome
from radrm.structs import replace
from tests.contract.broken import Broken, Watched, Wishing, lives, raising, world_of
from tests.contract.systems.slow import SlowAndreas
from tests.contract.systems.test_elastic import WORKERS, Elastic
from tests.published.systems.test_flowcon import FlowCon
from tests.published.systems.test_specon import SpeCon, converge
from tests.world import GIB, World, default_planner, gpus

CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL)


@dataclass
class Once(Wishing):
    """Proposes once for a running job: what `wish` makes of it."""

    wish: Any = None
    on: frozenset[type[ev.Event]] = frozenset({ev.ReadingsTaken})
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listens = self.on

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self._wishes(view), state={"calls": (state or {"calls": 0})["calls"] + 1})

    def _wishes(self, view: View) -> Iterator[Proposal]:
        for job, attempt in list(view.running()):
            self.seen.append(job.state.value)
            if job.state is JobState.RUNNING and not self.asked:
                self.asked += 1
                yield self.wish(job, attempt)


def preempt(job: Job, _: Any) -> Proposal:
    return Preempt(job_id=job.id)


def migrate(job: Job, attempt: Any) -> Proposal:
    shares = tuple(replace(share, device="GPU-1") for share in attempt.placement.shares)
    placement = Placement(shares, attempt.placement.collocation)
    return Migrate(job_id=job.id, placement=placement)


def cap(job: Job, attempt: Any) -> Proposal:
    shares = tuple(replace(share, cpus=1.0) for share in attempt.placement.shares)
    return SetShares(job_id=job.id, shares=shares)


def with_a_running_job(*others: Planner, **spec: Any) -> tuple[Watched, Attempt]:
    """A world with these planners beside the default one, and a host that answers no more."""
    world = Watched(gpus(2), planners=(default_planner(), *others))
    world.obey = False
    job = world.submit(GIB, **(spec or {"checkpoint": CAN_SAVE}))
    attempt = world.live(job)
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=attempt.serial))
    return world, attempt


def test_each_sees_what_the_earlier_ones_have_changed() -> None:
    first = Once(preempt, name="first")
    second = Once(cap, name="second")
    world, _ = with_a_running_job(first, second, requeue=True)
    world.read()
    assert first.seen[-1] == "RUNNING" and second.seen[-1] == "STOPPING"
    assert second.asked == 0


@pytest.mark.parametrize("wish", [preempt, cap, migrate])
def test_two_wishes_for_one_job_are_checked_one_by_one(wish: Any) -> None:
    """The second planner has made its plan without looking, and its wish is stale or sound."""
    both = [Broken(name=name, listens=frozenset({ev.ReadingsTaken})) for name in ("one", "two")]
    world, attempt = with_a_running_job(*both)
    job = world.jobs[attempt.job_id]
    plan = [wish(job, attempt)]
    for planner in both:
        planner.make = lambda: Plan(plan)
    rejected = world.read().rejections
    rule = {preempt: "pending", cap: "pending", migrate: "moving"}[wish]
    assert [why.rule for _, why in rejected] == [rule]
    kind = {preempt: "a preemption", cap: None, migrate: "a migration"}[wish]
    noted = None if kind is None else PlannerRequest(kind, "one")
    assert world.attempts[job.id, 1].requested == noted


def test_one_that_fails_harms_no_other() -> None:
    broken = Broken(make=raising(KeyError("x")))
    counting = Once(cap, name="counting")
    world = world_of(broken, default_planner(), counting)
    lives(world)
    calls = world.rule_states["planner", "counting"].state["calls"]
    assert calls > 5 and counting.asked == 1
    (said, *_) = world.said
    assert "the planner broken failed" in said and "the others go on without it" in said
    assert all("counting" not in line and "strict" not in line for line in world.said)


def test_the_one_that_starts_jobs_need_not_be_the_first() -> None:
    starter = Broken(make=raising(KeyError("x")), starts_jobs=True, name="starter")
    world = world_of(Once(cap, name="counting"), starter)
    job = world.submit(GIB)
    assert world.state(job) is JobState.RUNNING
    assert world.live(job).planner == "fallback"
    assert "in the order of the queue" in world.said[0]


def test_reasons_say_whose_they_are_but_for_the_planner_that_starts_jobs() -> None:
    class Wordy(Wishing):
        def explain(self, view: View, job: Job) -> Any:
            return (Refusal("budget", "its budget is spent"),)

    alone = Watched(gpus(1))
    several = Watched(gpus(1), planners=(default_planner(), Wordy(name="wordy")))
    for world in (alone, several):
        world.submit(30 * GIB)
        world.submit(30 * GIB)
    reasons = alone.scheduler.why_waiting(2, alone.now)
    assert reasons and all(reason.planner is None for reason in reasons)
    found = several.scheduler.why_waiting(2, several.now)
    assert {reason.planner for reason in found} == {None, "wordy"}
    assert [each for each in found if each.planner is None] == [*reasons]


def test_records_say_who_decided() -> None:
    world = World(gpus(2), planners=(default_planner(), SpeCon()))
    slow = world.submit(8 * GIB, smact=0.3, checkpoint=CAN_SAVE)
    blocker = world.submit(30 * GIB, smact=0.3)
    world.submit(8 * GIB, smact=0.3)
    world.end(blocker)
    converge(world, slow)
    first, second = (world.attempts[slow.id, number] for number in (1, 2))
    assert first.planner == "strict" and second.planner == "specon"
    assert first.reason == "preempted: the planner specon asked for a migration"
    assert first.outcome is Outcome.PREEMPTED and second.requested is None


def test_caps_during_a_migration_do_not_hide_who_asked_for_it() -> None:
    moving = Once(migrate, name="moving")
    capping = Once(cap, name="capping")
    world, attempt = with_a_running_job(moving, capping)
    world.read()
    assert moving.asked == capping.asked == 1
    taken = ev.CheckpointTaken(at=world.now, job_id=attempt.job_id, serial=attempt.serial)
    world.step(taken)
    world.end(attempt.job_id, signal=15)
    first, second = (world.attempts[attempt.job_id, number] for number in (1, 2))
    assert first.reason == "preempted: the planner moving asked for a migration"
    assert second.planner == "moving"


def test_two_toys_and_a_slow_one_at_once() -> None:
    """FlowCon caps, SpeCon migrates, and a slow ANDREAS preempts; nobody knows the others."""
    world = Watched(gpus(2), planners=(default_planner(), SpeCon(), FlowCon(), SlowAndreas()))
    patient = world.submit(20 * GIB, smact=0.3, checkpoint=CAN_SAVE)
    other = world.submit(30 * GIB, smact=0.3)
    world.pass_time(10.0)
    urgent = world.submit(30 * GIB, smact=0.3, due_s=1.0, priority=1)
    for _ in range(3):
        world.pass_time(10.0)
    assert world.state(urgent) is JobState.RUNNING
    assert world.attempts[patient.id, 1].outcome is Outcome.PREEMPTED
    world.end(other)
    world.end(urgent)
    world.pass_time(10.0)
    assert world.state(patient) is JobState.RUNNING
    converge(world, patient)
    assert world.jobs[patient.id].attempts == 3, "and SpeCon migrates it"
    kinds = {each.requested.kind for each in world.attempts.values() if each.requested}
    assert kinds == {"a migration", "a preemption"} and world.said == []


def test_a_resize_and_caps_of_one_job_do_not_disturb_each_other() -> None:
    """Elastic and FlowCon want the same job at the same event; a slow ANDREAS wants another."""
    world = Watched(gpus(4), planners=(default_planner(), Elastic(), FlowCon(), SlowAndreas()))
    grown = world.submit(30 * GIB, smact=0.5, roles=WORKERS)
    assert len(world.where(grown)) == 4
    patient = world.submit(30 * GIB, smact=0.5, checkpoint=CAN_SAVE)
    others = [world.submit(30 * GIB, smact=0.5) for _ in range(2)]
    urgent = world.submit(30 * GIB, smact=0.5, due_s=1.0, priority=1)
    for _ in range(6):
        world.pass_time(10.0)
    assert len(world.where(grown)) == 1 and world.state(urgent) is JobState.RUNNING
    assert world.attempts[patient.id, 1].outcome is Outcome.PREEMPTED
    held = {uuid for owner, uuid in world.reservations if owner == f"job:{grown.id}"}
    assert held == set(world.where(grown))
    for job in (urgent, *others):
        world.end(job)
    for _ in range(3):
        world.pass_time(10.0)
    assert world.state(patient) is JobState.RUNNING and world.said == []


def test_a_start_of_a_controller_is_checked_like_any_other() -> None:
    """`starts_jobs` says who is expected to start jobs; it is no right."""
    share = Share(device="GPU-0", reserved_mib=GIB)
    wish = Start(job_id=1, placement=Placement((share,), Collocation.TIMESLICE))
    world = Watched(gpus(1), planners=(Wishing(wish, starts_jobs=False), default_planner()))
    job = world.submit(GIB)
    assert world.live(job).planner == "wishing"
    assert not [why for each in world.decisions for _, why in each.rejections if why.rule == "x"]


def test_a_checkpoint_is_noted_too() -> None:
    def save(job: Job, _: Any) -> Proposal:
        return TakeCheckpointNow(job_id=job.id)

    world = Watched(gpus(1), planners=(default_planner(), Once(save, name="saver")))
    job = world.submit(GIB, checkpoint=CAN_SAVE)
    world.read()
    assert world.attempts[job.id, 1].requested == PlannerRequest("a checkpoint", "saver")
    assert world.jobs[job.id].saved_at is not None


def test_a_rejected_wish_is_noted_nowhere() -> None:
    wish = ResizeTo(job_id=1, placement=Placement((), Collocation.EXCLUSIVE))
    world = Watched(gpus(1), planners=(default_planner(), Wishing(wish)))
    job = world.submit(GIB)
    world.read()
    assert any(decision.rejections for decision in world.decisions)
    assert world.attempts[job.id, 1].requested is None
