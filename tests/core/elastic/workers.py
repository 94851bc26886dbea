"""Elastic jobs for tests: workers on GPUs, and servers and workers without."""

from __future__ import annotations

from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import ResizeTo
from radrm.core.records import Attempt, Job, Needs, Node, Placement, Role, Share
from radrm.core.words import Resizing
from tests.core.placements import CORE, SAVES, SLICE, Passive, propose, start
from tests.world import GIB, World, gpus

WORKERS = (Role(count_max=4),)
NODE = Node(cpus=32.0, memory_mib=64 * GIB)


def workers(*numbers: int, mib: int = GIB, **caps: Any) -> Placement:
    """A worker with each of these numbers, on the GPU of its number."""
    return Placement(tuple(Share(f"GPU-{i}", mib, task=i, **caps) for i in numbers), SLICE)


def training(count: int = 1, **spec: Any) -> tuple[World, Job]:
    """A job with workers on the first `count` of four GPUs; nothing else starts or answers."""
    world = World(gpus(4), planners=(Passive(),), settings=CORE, node=NODE)
    job = world.submit(GIB, **{"roles": WORKERS, "checkpoint": SAVES, **spec})
    start(world, job, workers(*range(count)))
    world.obey = False
    return world, world.jobs[job.id]


def restarting(count: int = 1, **spec: Any) -> tuple[World, Job]:
    """The same, for a job that is resized by a restart."""
    return training(count, resizing=Resizing.RESTART, **spec)


def resize(world: World, *numbers: int) -> None:
    assert propose(world, ResizeTo(job_id=1, placement=workers(*numbers))) is None


def live(world: World, job_id: int = 1) -> Attempt:
    attempt = world.live(job_id)
    assert attempt is not None
    return attempt


def asked(world: World) -> act.Resize:
    """The last resize that the host was asked for."""
    found = [action for action in world.actions if isinstance(action, act.Resize)]
    return found[-1]


def resized(world: World, action: act.Resize) -> None:
    world.step(
        ev.Resized(
            at=world.now,
            job_id=action.job_id,
            serial=action.serial,
            target=action.target,
            generation=action.generation,
        )
    )


def failed(world: World, action: act.Action, reason: str = "no") -> None:
    world.step(ev.ActionFailed(at=world.now, action=action, reason=reason))


def held(world: World) -> set[str]:
    """The devices on which anything is reserved."""
    return {reservation.device for reservation in world.stored.values()}


def servers_and_workers(**changes: Any) -> tuple[Role, ...]:
    needs = Needs(gpus=0, cpus=2.0)
    return Role("ps", 1, 4, needs=needs), Role("worker", 1, 8, needs=needs, **changes)
