"""A server on which users reserve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radrm.core import events as ev
from radrm.core.records import UserReservation
from radrm.core.settings import CoreSettings
from radrm.structs import replace
from tests.world import World

CORE = CoreSettings(
    smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9, user_reserved_gpu_hours=8.0
)
HOUR_S = 3600.0
ADA, BOB = 1, 2


def wish(world: World, devices: Sequence[int] = (0,), **changes: Any) -> UserReservation:
    """One hour from now for ada; `start_s` and `end_s` count from now."""
    now_s = world.now.wall_s
    changes["start_s"] = now_s + changes.get("start_s", 0.0)
    changes["end_s"] = now_s + changes.get("end_s", HOUR_S)
    usual = UserReservation(
        id=0,
        devices=tuple(f"GPU-{index}" for index in devices),
        start_s=0.0,
        end_s=0.0,
        whom="ada",
        uids=(ADA,),
        by="root",
    )
    return replace(usual, **changes)


def reserve(world: World, devices: Sequence[int] = (0,), **changes: Any) -> UserReservation:
    """Reserve, and return the record."""
    wanted = wish(world, devices, **changes)
    assert world.scheduler.refuse_reservation(wanted, world.now) is None
    world.step(ev.ReserveRequested(at=world.now, reservation=wanted))
    return world.for_users[max(world.for_users)]


def unreserve(world: World, found: UserReservation) -> None:
    world.step(ev.UnreserveRequested(at=world.now, reservation_id=found.id, by="root"))


def message(world: World, job: Any) -> str:
    """The first reason why a job waits."""
    return world.scheduler.why_waiting(job.id, world.now)[0].message
