"""What may be done with a running job, as a table of proposals."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.constraints.proposal import check
from radrm.core.proposals import (
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
)
from radrm.core.records import (
    Job,
    Placement,
    Role,
    Share,
)
from radrm.core.words import Resizing
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.core.placements import MPS, SAVES, SLICE, WHOLE, on, propose, server, start
from tests.world import GIB, World, gpus


def running(world: World, **spec: Any) -> Job:
    return start(world, world.submit(GIB, **spec), on("GPU-0"))


STAY, AWAY, BOTH = on("GPU-0"), on("GPU-1"), on("GPU-0", "GPU-1")
TWO_TASKS = Placement((Share("GPU-0", GIB), Share("GPU-1", GIB, task=1)), SLICE)
ELASTIC = (Role(count_min=1, count_max=2),)
RESTART = Resizing.RESTART
SAVING_RESTART = {"roles": ELASTIC, "resizing": RESTART, "checkpoint": SAVES}
RUNNING: list[tuple[dict[str, Any], type[Proposal], dict[str, Any], str | None]] = [
    ({}, Preempt, {}, "checkpoint"),
    ({"requeue": True}, Preempt, {}, None),
    ({"checkpoint": SAVES}, Preempt, {}, None),
    ({}, TakeCheckpointNow, {}, "checkpoint"),
    ({"checkpoint": SAVES}, TakeCheckpointNow, {}, None),
    ({"requeue": True}, Migrate, {"placement": AWAY}, "checkpoint"),
    ({"checkpoint": SAVES}, Migrate, {"placement": AWAY}, None),
    ({"checkpoint": SAVES}, Migrate, {"placement": BOTH}, "count"),
    ({"checkpoint": SAVES}, Migrate, {"placement": on("nowhere")}, "vanished"),
    ({"roles": ELASTIC}, ResizeTo, {"placement": TWO_TASKS}, None),
    ({"roles": ELASTIC}, ResizeTo, {"placement": AWAY}, "resize"),
    ({"roles": ELASTIC}, ResizeTo, {"placement": replace(STAY, collocation=MPS)}, "resize"),
    ({}, ResizeTo, {"placement": TWO_TASKS}, "count"),
    ({}, ResizeTo, {"placement": STAY}, "resize"),
    ({"roles": ELASTIC, "resizing": Resizing.NONE}, ResizeTo, {"placement": TWO_TASKS}, "resize"),
    ({"roles": ELASTIC, "resizing": RESTART}, ResizeTo, {"placement": TWO_TASKS}, "checkpoint"),
    (SAVING_RESTART, ResizeTo, {"placement": TWO_TASKS}, None),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, sm_fraction=0.5),)}, None),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, cpus=2.0),)}, None),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, cpu_weight=0.5),)}, None),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, cpu_weight=0.001),)}, "shares"),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, cpu_weight=101.0),)}, "shares"),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, sm_fraction=1.5),)}, "shares"),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, sm_fraction=0.0),)}, "shares"),
    ({}, SetShares, {"shares": (Share("GPU-0", GIB, cpus=0.0),)}, "shares"),
    ({}, SetShares, {"shares": (Share("GPU-0", 2 * GIB),)}, "shares"),
    ({}, SetShares, {"shares": (Share("GPU-1", GIB),)}, "shares"),
    ({}, SetShares, {"shares": ()}, "shares"),
    ({}, Start, {"placement": AWAY}, "job"),
]


@pytest.mark.parametrize("spec, kind, words, rule", RUNNING)
def test_what_may_be_done_with_a_running_job(
    spec: dict[str, Any], kind: type[Proposal], words: dict[str, Any], rule: str | None
) -> None:
    world = server()
    job = running(world, **spec)
    world.read()
    world.scheduler.state.begin(world.now)
    refusal = check(world.scheduler.state, kind(job_id=job.id, **words))
    assert (refusal.rule if refusal else None) == rule


@pytest.mark.parametrize("kind", [Preempt, TakeCheckpointNow])
def test_what_does_not_run_cannot_be_stopped(kind: type[Proposal]) -> None:
    world = server()
    job = world.submit(GIB, checkpoint=SAVES)
    for job_id in (job.id, 99):
        assert check(world.scheduler.state, kind(job_id=job_id)).rule == "job"


@pytest.mark.parametrize("first", [Migrate, ResizeTo])
@pytest.mark.parametrize("second", [Migrate, ResizeTo])
def test_one_move_at_a_time(first: type[Proposal], second: type[Proposal]) -> None:
    world = server(*gpus(3))
    job = running(world, checkpoint=SAVES, roles=ELASTIC)
    world.read()
    world.obey = False
    there = {Migrate: AWAY, ResizeTo: TWO_TASKS}
    elsewhere = {
        Migrate: on("GPU-2"),
        ResizeTo: Placement((Share("GPU-0", GIB), Share("GPU-2", GIB, task=1)), SLICE),
    }
    move = first(job_id=job.id, placement=there[first])
    again = second(job_id=job.id, placement=elsewhere[second])
    assert propose(world, move) is None
    reserved_on = dict(world.reservations)
    assert propose(world, again).rule == "moving"
    assert world.reservations == reserved_on, "nothing is reserved for a move that is not made"


def test_nothing_starts_while_the_server_cannot_start_anything() -> None:
    world = server()
    job = world.submit(GIB)
    world.scheduler.state.launch_error = "the disk is full"
    refusal = check(world.scheduler.state, Start(job_id=job.id, placement=STAY))
    assert refusal.rule == "launch" and "disk is full" in refusal.message


def test_the_exclusive_policy_waits_for_an_idle_device() -> None:
    """Its jobs would share, by themselves: that it gives whole devices is the placement's."""
    world = World(gpus(1), policy=Exclusive())
    first, second = world.submit(GIB), world.submit(GIB)
    assert world.where(first) == ("GPU-0",) and world.where(second) == ()
    version = world.scheduler.state.version
    mine = Start(job_id=second.id, placement=on("GPU-0", mode=WHOLE))
    event = ev.PlanReady(at=world.now, planner="x", version=version, proposals=(mine,))
    ((_, refusal),) = world.step(event).rejections
    assert refusal.rule == "taken"


def test_a_job_moves_to_more_memory_of_its_device() -> None:
    world = server()
    job = start(world, world.submit(GIB, checkpoint=SAVES), on("GPU-0", mib=10 * GIB))
    world.read()
    world.obey = False
    assert propose(world, Migrate(job_id=job.id, placement=on("GPU-0", mib=30 * GIB))) is None
    ledger = world.scheduler.state.ledgers["GPU-0"]
    assert len(ledger.reservations) == 2 and ledger.free_mib() == 10 * GIB, "they do not add up"
    rival = world.submit(20 * GIB)
    refusal = propose(world, Start(job_id=rival.id, placement=on("GPU-0", mib=20 * GIB)))
    assert refusal.rule == "memory"
    world.obey = True
    world.step(ev.CheckpointTaken(at=world.now, job_id=job.id, serial=world.live(job).serial))
    assert [(r.kind.value, r.mib) for r in world.stored.values()] == [("running", 30 * GIB)]
