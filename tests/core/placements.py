"""Worlds whose planner starts nothing, and placements to ask the constraints about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from radrm.core import events as ev
from radrm.core.constraints.placement import check_placement
from radrm.core.proposals import (
    Proposal,
    Start,
)
from radrm.core.records import (
    Checkpoint,
    Device,
    Job,
    Placement,
    Refusal,
    Share,
)
from radrm.core.rules import Plan
from radrm.core.settings import CoreSettings
from radrm.core.words import (
    CheckpointKind,
    Collocation,
    DeviceKind,
)
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=5.0)
MIG = {"kind": DeviceKind.MIG, "profile": "1g.5gb"}
SLICE, MPS, WHOLE = Collocation.TIMESLICE, Collocation.MPS, Collocation.EXCLUSIVE
SAVES = Checkpoint(CheckpointKind.SIGNAL)


class Passive:
    """A planner that starts nothing: what may be done is asked of `validation` alone."""

    name, version, starts_jobs = "passive", 1, True
    listens = frozenset[type[ev.Event]]()

    def plan(self, view: Any, event: ev.Event, state: Any) -> Plan:
        return Plan()

    def explain(self, view: Any, job: Job) -> tuple[Refusal, ...]:
        return ()


def server(*devices: Device, **settings: Any) -> World:
    return World(devices or gpus(2), planners=(Passive(),), settings=replace(CORE, **settings))


def on(*uuids: str | None, mib: int = GIB, mode: Collocation = SLICE) -> Placement:
    """One task on these devices."""
    return Placement(tuple(Share(uuid, mib) for uuid in uuids), mode)


def start(world: World, job: Job, placement: Placement) -> Job:
    """Run a job there, if that is allowed."""
    propose(world, Start(job_id=job.id, placement=placement))
    assert world.live(job) is not None, world.decisions[-1].rejections
    return job


def propose(world: World, proposal: Proposal) -> Refusal | None:
    version = world.scheduler.state.version
    event = ev.PlanReady(at=world.now, planner="test", version=version, proposals=(proposal,))
    rejections = world.step(event).rejections
    return rejections[0][1] if rejections else None


def refused(world: World, job: Job, placement: Placement) -> str | None:
    """The rule that stands between a job and a placement; None where none does."""
    world.scheduler.state.begin(world.now)
    refusal = check_placement(world.scheduler.state, world.jobs[job.id], placement)
    assert refusal is None or refusal.message
    return refusal.rule if refusal else None
