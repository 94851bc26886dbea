"""Growth takes only what is free: not what is reserved, and not what others of the job have."""

from __future__ import annotations

import dataclasses

import pytest

from radrm.core import events as ev
from radrm.core.proposals import Proposal, Reserve, ResizeTo, SetShares, Start
from radrm.core.records import Needs, Node, Placement, Progress, Role, Share
from radrm.structs import replace
from tests.core.elastic.workers import asked, live, resize, resized, training, workers
from tests.core.placements import CORE, SLICE, Passive, on, propose, start
from tests.world import GIB, World, gpus

# ------------------------------------------------------------------ waiting jobs


def reserve(world: World, waiting: int, then: Proposal) -> str | None:
    """Reserve GPU-1 for a waiting job and propose something, in one plan."""
    now_s = world.now.boot_s
    kept = Reserve(
        job_id=waiting, devices=(("GPU-1", None),), start_s=now_s + 60.0, end_s=now_s + 660.0
    )
    version = world.scheduler.state.version
    plan = ev.PlanReady(at=world.now, planner="passive", version=version, proposals=(kept, then))
    rejections = world.step(plan).rejections
    assert kept not in [proposal for proposal, _ in rejections]
    return rejections[0][1].message if rejections else None


def test_growth_never_takes_what_is_reserved_for_a_waiting_job() -> None:
    """Without a time limit the new task would be there when the reservation begins."""
    world, _ = training()
    waiting = world.submit(40 * GIB, time_limit_s=600.0)
    grown = ResizeTo(job_id=1, placement=workers(0, 1))
    why = reserve(world, waiting.id, grown)
    assert f"reserved for job {waiting.id} in 1m00s" in why
    assert reserve(world, waiting.id, ResizeTo(job_id=1, placement=workers(0, 2))) is None


def test_growth_never_takes_the_target_of_another_resize() -> None:
    world, _ = training()
    world.obey = True
    other = world.submit(GIB, roles=(Role(count_max=2),))
    start(world, other, on("GPU-3", mib=GIB))
    world.obey = False
    resize(world, 0, 1)
    both = Placement((Share("GPU-3", GIB), Share("GPU-1", 40 * GIB, task=1)), SLICE)
    refusal = propose(world, ResizeTo(job_id=other.id, placement=both))
    assert refusal.message == "needs 40.0G, 39.0G free"


# ------------------------------------------------------------------ tasks together


def test_each_role_has_its_own_need() -> None:
    world = World(gpus(2), planners=(Passive(),), settings=CORE)
    roles = (
        Role("actor", needs=Needs(gpu_memory_mib=30 * GIB)),
        Role("critic", needs=Needs(gpu_memory_mib=5 * GIB)),
    )
    world.submit(roles=roles)

    def both(actor: int, critic: int) -> Start:
        shares = (
            Share("GPU-0", actor * GIB, role="actor"),
            Share("GPU-0", critic * GIB, role="critic"),
        )
        return Start(job_id=1, placement=Placement(shares, SLICE))

    assert propose(world, both(17, 17)).message == "needs 35.0G, 34.0G would be reserved"
    assert propose(world, both(30, 5)) is None


def test_growth_with_room_for_each_task_alone_is_refused_without_room_for_both() -> None:
    world, _ = training()
    shares = (
        *workers(0).shares,
        Share("GPU-1", 20 * GIB, task=1),
        Share("GPU-1", 21 * GIB, task=2),
    )
    refusal = propose(world, ResizeTo(job_id=1, placement=Placement(shares, SLICE)))
    assert refusal.message == "needs 41.0G, 40.0G free"


def test_a_job_without_a_gpu_that_is_resized_or_restarted_does_not_count_against_itself() -> None:
    settings = dataclasses.replace(CORE, gpuless_at_once=1)
    world = World(gpus(1), planners=(Passive(),), settings=settings, node=Node(cpus=8.0))
    world.submit(roles=(Role(count_max=2, needs=Needs(gpus=0)),))
    one = Placement((Share(None),), SLICE)
    start(world, world.jobs[1], one)
    two = replace(one, shares=(*one.shares, Share(None, task=1)))
    assert propose(world, ResizeTo(job_id=1, placement=two)) is None
    world.restart()
    assert propose(world, ResizeTo(job_id=1, placement=one)) is None
    other = world.submit(gpus=0)
    assert propose(world, Start(job_id=other.id, placement=one)).rule == "gpuless"


# ------------------------------------------------------------------ plans that come late


def stale(world: World, version: int) -> bool:
    """Whether a plan made at this version may not shrink job 1 any more."""
    wish = ResizeTo(job_id=1, placement=workers(0))
    event = ev.PlanReady(at=world.now, planner="test", version=version, proposals=(wish,))
    return [refusal.rule for _, refusal in world.step(event).rejections] == ["stale"]


def test_progress_and_use_make_no_plan_stale() -> None:
    world, _ = training(2)
    version = world.scheduler.state.version
    world.report(1, step=5)
    world.step(
        ev.ProgressReported(at=world.now, job_id=1, serial=1, progress=Progress(world.now, step=6))
    )
    world.read()
    assert not stale(world, version)


@pytest.mark.parametrize("change", ["cpus", "grows", "grown", "failed"])
def test_a_changed_attempt_makes_a_plan_stale(change: str) -> None:
    world, _ = training(2)
    version = world.scheduler.state.version
    if change == "cpus":
        world.obey = True
        shares = workers(0, 1, cpus=2.0).shares
        assert propose(world, SetShares(job_id=1, shares=shares)) is None
    else:
        resize(world, 0, 1, 2)
        if change == "grown":
            resized(world, asked(world))
        elif change == "failed":
            world.step(ev.ActionFailed(at=world.now, action=asked(world), reason="no"))
    assert live(world).placement.shares
    assert stale(world, version)
