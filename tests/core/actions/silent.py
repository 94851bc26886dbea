"""A host that answers nothing, for tests of deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radrm.core.records import (
    Checkpoint,
    Job,
    Placement,
    Role,
    Share,
)
from radrm.core.words import ActionKind, CheckpointKind
from tests.core.placements import SLICE, on, server, start
from tests.world import GIB, World, gpus

COSTLY = Checkpoint(CheckpointKind.SIGNAL, cost_s=1000.0)
SAVES = Checkpoint(CheckpointKind.SIGNAL, cost_s=5.0)
ELASTIC = (Role(count_min=1, count_max=2),)
HERE = on("GPU-0")
GROWN = Placement((Share("GPU-0", GIB), Share("GPU-1", GIB, task=1)), SLICE)
CAPPED = (Share("GPU-0", GIB, sm_fraction=0.5),)


def silent(checkpoint: Checkpoint = SAVES, **spec: Any) -> tuple[World, Job]:
    """A job that runs on GPU-0; from now on its host answers nothing."""
    world = server(*gpus(2))
    world.submit(GIB, checkpoint=checkpoint, roles=ELASTIC, **spec)
    start(world, world.jobs[1], HERE)
    world.obey = False
    return world, world.jobs[1]


def reserved(world: World) -> dict[str, int]:
    """The number of reservations on each device, by the store; the ledgers must agree."""
    state, found = world.scheduler.state, dict.fromkeys((d.uuid for d in world.devices), 0)
    for reservation in world.stored.values():
        found[reservation.device] += 1
    for uuid in found:
        assert len(list(state.ledgers[uuid].reservations)) == found[uuid], uuid
    return found


def until_due(world: World, kind: ActionKind, job_id: int = 1) -> float:
    pending = world.live(job_id).asked(kind)
    assert pending is not None, f"no {kind.value} is pending"
    assert world.decisions[-1].wake_at <= pending.due_boot_s, "nothing wakes the scheduler"
    return pending.due_boot_s - world.boot_s


RESTARTS: list[Callable[[World], None]] = [lambda world: None, World.restart]
each_restart = pytest.mark.parametrize("restart", RESTARTS, ids=["same daemon", "restart"])
