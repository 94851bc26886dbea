"""A resize by a restart: the job saves, stops, and goes on at its new size on reserved devices."""

from __future__ import annotations

import dataclasses

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Preempt, ResizeTo, Start
from radrm.core.records import Checkpoint, Exit, Needs, Node, Placement, Progress, Role, Share
from radrm.core.words import CheckpointKind, JobState, ReservationKind, Resizing
from radrm.structs import replace
from tests.core.actions.silent import each_restart
from tests.core.elastic.workers import failed, held, live, resize, restarting, workers
from tests.core.placements import CORE, SAVES, SLICE, Passive, on, propose, start
from tests.world import GIB, World, gpus


def save(world: World) -> None:
    done = Progress(world.now, work_done=0.5)
    world.step(ev.CheckpointTaken(at=world.now, job_id=1, serial=1, progress=done))


@each_restart
@pytest.mark.parametrize("count, then", [(1, (0, 1, 2)), (3, (0,)), (2, (0, 3))])
def test_it_saves_stops_and_goes_on_at_its_new_size(
    restart: object, count: int, then: tuple[int, ...]
) -> None:
    world, _ = restarting(count)
    resize(world, *then)
    assert [type(a) for a in world.actions[-1:]] == [act.TakeCheckpoint]
    assert not [a for a in world.actions if isinstance(a, act.Resize)]
    both = {f"GPU-{i}" for i in (*range(count), *then)}
    restart(world)
    assert held(world) == both
    save(world)
    restart(world)
    assert world.state(1) is JobState.STOPPING and held(world) == both
    world.end(1, signal=15)
    targets = {f"GPU-{i}" for i in then}
    assert held(world) == targets, "reserved while the devices are read"
    restart(world)
    world.read()
    attempt = live(world)
    assert (attempt.number, attempt.placement, attempt.generation) == (2, workers(*then), 1)
    assert {r.kind for r in world.stored.values()} == {ReservationKind.RUNNING}
    assert held(world) == targets and world.jobs[1].target is None
    assert world.attempts[1, 1].reason == "preempted: the planner test asked for a resize"


def test_nobody_takes_a_device_between_the_stop_and_the_start() -> None:
    world, _ = restarting(1)
    resize(world, 0, 1)
    save(world)
    world.end(1, signal=15)
    other = world.submit(40 * GIB)
    for uuid in ("GPU-0", "GPU-1"):
        assert propose(world, Start(job_id=other.id, placement=on(uuid, mib=40 * GIB))) is not None
    world.read()
    assert live(world).placement == workers(0, 1)


@pytest.mark.parametrize("silent", [True, False])
def test_one_that_does_not_save_keeps_its_size_and_waits(silent: bool) -> None:
    world, _ = restarting(1)
    resize(world, 0, 1)
    if silent:
        world.pass_time(CORE.checkpoint_limit_s)
    else:
        failed(world, world.actions[-1])
    assert (live(world).placement, world.jobs[1].target) == (workers(0), None)
    assert held(world) == {"GPU-0"} and live(world).resize_failed is not None
    assert propose(world, ResizeTo(job_id=1, placement=workers(0, 1))).rule == "pause"
    world.pass_time(1.0)
    resize(world, 0, 1)


def test_a_resize_waits_for_a_checkpoint_under_way() -> None:
    world, _ = restarting(1)
    assert propose(world, Preempt(job_id=1)) is None
    assert propose(world, ResizeTo(job_id=1, placement=workers(0, 1))).rule == "pending"


def test_a_drained_device_cannot_be_started_on() -> None:
    world, _ = restarting(2)
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    assert propose(world, ResizeTo(job_id=1, placement=workers(0, 1, 2))).rule == "drained"
    resize(world, 0)


def test_one_that_leaves_when_it_is_asked_goes_on_at_its_new_size() -> None:
    world, _ = restarting(1, checkpoint=Checkpoint(CheckpointKind.EXIT))
    resize(world, 0, 1)
    saved = Progress(world.now, work_done=0.5)
    world.step(ev.AttemptEnded(at=world.now, job_id=1, serial=1, exits=(Exit(0),), saved=saved))
    world.read()
    assert live(world).placement == workers(0, 1)


def test_a_cancel_gives_the_target_up() -> None:
    world, _ = restarting(1)
    resize(world, 0, 1)
    world.cancel(1)
    assert held(world) == {"GPU-0"}
    world.end(1, signal=15)
    assert world.state(1) is JobState.CANCELLED and not held(world)


def test_a_job_without_a_gpu_does_not_count_against_itself() -> None:
    settings = dataclasses.replace(CORE, gpuless_at_once=1)
    world = World(gpus(1), planners=(Passive(),), settings=settings)
    roles = (Role(count_max=2, needs=Needs(gpus=0)),)
    job = world.submit(roles=roles, checkpoint=SAVES, resizing=Resizing.RESTART)
    one = Placement((Share(None),), SLICE)
    start(world, job, one)
    both = replace(one, shares=(*one.shares, Share(None, task=1)))
    assert propose(world, ResizeTo(job_id=1, placement=both)) is None
    assert live(world).placement == both and live(world).number == 2


def test_a_full_node_has_room_for_the_jobs_own_cpus() -> None:
    roles = (Role(count_max=4, needs=Needs(cpus=2.0)),)
    world = World(gpus(2), planners=(Passive(),), settings=CORE, node=Node(cpus=5.0))
    job = world.submit(GIB, roles=roles, checkpoint=SAVES, resizing=Resizing.RESTART)
    start(world, job, workers(0, cpus=2.0))
    refusal = propose(world, ResizeTo(job_id=1, placement=workers(0, 1, cpus=3.0)))
    assert refusal.message == "needs 6 CPUs, 5 free"
    assert propose(world, ResizeTo(job_id=1, placement=workers(0, 1, cpus=2.0))) is None
    assert world.where(1) == ("GPU-0", "GPU-1")
