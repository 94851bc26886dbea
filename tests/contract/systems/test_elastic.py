"""Elastic resize through `step`: a job of 1..4 workers grows and shrinks with the room.

The shape of DLRover's auto-scaling (section 4): a role with a count range; a
controller adds workers while devices are idle and nobody waits, and gives them
back when another job arrives. In place: kept workers keep running.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Proposal, ResizeTo
from radrm.core.records import Job, Needs, Placement, Refusal, Role, Share
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import JobState, StopReason
from tests.world import GIB, World, default_planner, gpus

WORKERS = (Role(name="worker", count_min=1, count_max=4, needs=Needs(gpus=1)),)


@dataclass(frozen=True)
class Elastic:
    name: str = "elastic"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset(
        {ev.AttemptStarted, ev.JobSubmitted, ev.ReadingsTaken, ev.Resized}
    )

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self._resizes(view))

    def _resizes(self, view: View) -> Iterator[Proposal]:
        for job, attempt in list(view.running()):
            role = job.spec.roles[0]
            if role.count_max == role.count_min or attempt.target is not None:
                continue
            shares = attempt.placement.shares
            mode = attempt.placement.collocation
            if view.head() is not None and len(shares) > role.count_min:
                yield ResizeTo(job_id=job.id, placement=Placement(shares[:-1], mode))
            elif view.head() is None and len(shares) < role.count_max:
                free = [
                    o.device.uuid
                    for o in view.offers(job, role)
                    if o.refusal is None
                    and o.idle
                    and o.device.uuid not in attempt.placement.devices
                ]
                if free:
                    more = Share(free[0], shares[0].reserved_mib, role="worker", task=len(shares))
                    yield ResizeTo(job_id=job.id, placement=Placement((*shares, more), mode))

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()


def elastic_world() -> tuple[World, Job]:
    world = World(gpus(4), planners=(default_planner(), Elastic()))
    job = world.submit(30 * GIB, smact=0.5, roles=WORKERS)
    return world, job


def test_it_grows_into_idle_devices() -> None:
    world, job = elastic_world()
    assert world.where(job) == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    attempt = world.live(job)
    assert attempt.number == 1, "in place: no new attempt"
    assert attempt.planner == "strict"
    assert str(attempt.requested) == "the planner elastic asked for a resize"
    assert [t.number for t in attempt.tasks] == [0, 1, 2, 3]
    assert {d for _, d in world.reservations} == set(world.where(job))


def test_it_shrinks_when_another_arrives_and_grows_back() -> None:
    world, job = elastic_world()
    other = world.submit(30 * GIB, smact=0.5)
    assert world.where(job) == ("GPU-0", "GPU-1", "GPU-2")
    assert world.where(other) == ("GPU-3",)
    world.end(other)
    assert len(world.where(job)) == 4
    world.end(job)
    assert world.state(job) is JobState.COMPLETED
    assert not world.reservations


def test_what_is_given_up_stays_reserved_until_it_is_free() -> None:
    world, job = elastic_world()
    world.obey = False
    other = world.submit(30 * GIB, smact=0.5)
    asked = next(a for a in reversed(world.actions) if isinstance(a, act.Resize))
    assert world.where(other) == ()
    assert ("job:1", "GPU-3") in world.reservations
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="the worker does not end"))
    assert world.live(job).target is None and len(world.where(job)) == 4


def test_growth_that_fails_gives_its_devices_back() -> None:
    world = World(gpus(2), planners=(default_planner(), Elastic()))
    world.obey = False
    job = world.submit(30 * GIB, roles=WORKERS)
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=1))
    asked = next(a for a in world.actions if isinstance(a, act.Resize))
    assert ("job:1", "GPU-1") in world.reservations
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="no"))
    assert ("job:1", "GPU-1") not in world.reservations


def test_nobody_grows_beyond_his_range() -> None:
    world = World(gpus(6), planners=(default_planner(), Elastic()))
    job = world.submit(30 * GIB, roles=WORKERS)
    assert len(world.where(job)) == 4
    attempt = world.live(job)
    shares = (*attempt.placement.shares, Share("GPU-5", 30 * GIB, role="worker", task=4))
    too_many = ResizeTo(job_id=job.id, placement=Placement(shares, attempt.placement.collocation))
    decision = world.step(
        ev.PlanReady(
            at=world.now,
            planner="elastic",
            version=world.scheduler.state.version,
            proposals=(too_many,),
        )
    )
    assert [r.rule for _, r in decision.rejections] == ["count"]


def test_an_attempt_that_says_what_is_not_true_keeps_its_devices_and_is_stopped() -> None:
    world, job = elastic_world()
    world.obey = False
    other = world.submit(30 * GIB, smact=0.5)
    asked = next(a for a in reversed(world.actions) if isinstance(a, act.Resize))
    why = "it has processes on GPU-3, which it gave back"
    world.step(ev.ActionFailed(at=world.now, action=asked, reason=why, stops=True))
    stopped = world.live(job)
    assert (stopped.stop.reason, stopped.stop.why) == (StopReason.PREEMPTED, why)
    assert ("job:1", "GPU-3") in world.reservations and world.where(other) == ()
    world.end(job)
    assert world.state(job) is not JobState.FAILED
