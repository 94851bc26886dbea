"""What may be reserved: every refusal is one line with both numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.reservations import LONGEST_AHEAD_S, MOST, MOST_OWN, OWN_AHEAD_S
from radrm.structs import replace
from tests.core.reservations.servers import ADA, BOB, CORE, HOUR_S, reserve, unreserve, wish
from tests.world import World, gpus

OWN = {"own": True, "by_uid": ADA}
DAY_S = 86_400.0

REFUSED: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"start_s": -59.0}, None),
    ({"start_s": -3600.0}, "it would begin 1h00m ago; begin it now or later"),
    ({"start_s": float("-inf")}, "a reservation has a start and an end"),
    ({"end_s": float("inf")}, "a reservation has a start and an end"),
    ({"end_s": float("nan")}, "a reservation has a start and an end"),
    ({"end_s": -1.0}, "it would end before it begins; give an --until after its start, or"),
    ({"end_s": 0.0}, "it would end before it begins"),
    ({"end_s": 59.0}, "it would last 59s, the shortest is 1m00s"),
    ({"end_s": LONGEST_AHEAD_S}, None),
    ({"end_s": LONGEST_AHEAD_S + DAY_S}, "it would end in 367d00h, at most 366d00h ahead can be"),
    ({"end_s": 1e300}, "at most 366d00h ahead can be reserved"),
    ({**OWN, "end_s": 4 * HOUR_S}, None),
    ({**OWN, "start_s": OWN_AHEAD_S, "end_s": OWN_AHEAD_S + 60.0}, "at most 30d00h ahead"),
    (
        {**OWN, "end_s": 4.5 * HOUR_S},
        "it needs 9 GPU-hours, the limit is 8 (limits.reserved_gpu_hours); make it shorter, or",
    ),
    ({"devices": ()}, "a reservation names different GPUs, at least one"),
    ({"devices": ("GPU-0", "GPU-0")}, "a reservation names different GPUs"),
    ({"devices": ("GPU-9",)}, "there is no GPU GPU-9"),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED)
def test_a_reservation_is_validated(changes: dict[str, Any], why: str | None) -> None:
    world = World(gpus(2), settings=CORE)
    devices = {name: changes[name] for name in ("devices",) if name in changes}
    rest = {name: value for name, value in changes.items() if name not in devices}
    wanted = replace(wish(world, (0, 1), **rest), **devices)
    found = world.scheduler.refuse_reservation(wanted, world.now)
    assert (found is None) is (why is None) and (why or "") in (found or "")
    world.step(ev.ReserveRequested(at=world.now, reservation=wanted))
    assert bool(world.for_users) is (why is None), "the core relies on no host"


def why(world: World, devices: tuple[int, ...] = (0,), **changes: Any) -> str | None:
    return world.scheduler.refuse_reservation(wish(world, devices, **changes), world.now)


def test_no_two_have_a_device_at_the_same_time() -> None:
    world = World(gpus(2), settings=CORE)
    reserve(world, [0])
    reserve(world, [0], start_s=2 * HOUR_S, end_s=3 * HOUR_S)
    assert why(world) == "GPU 0 is reserved for ada (reservation 1) for 1h00m more"
    later = why(world, (1, 0), start_s=HOUR_S, end_s=2 * HOUR_S + 1)
    assert later == "GPU 0 is reserved for ada (reservation 2) in 2h00m, for 1h00m"
    assert why(world, start_s=HOUR_S, end_s=2 * HOUR_S) is None
    assert why(world, (1,)) is None
    world.pass_time(HOUR_S)
    assert why(world) is None, "the first one is over"


def test_what_a_user_has_reserved_for_itself_counts_together() -> None:
    world = World(gpus(9), settings=dataclasses.replace(CORE, user_gpus=3))
    first = reserve(world, [0, 1], **OWN, end_s=3 * HOUR_S)
    assert why(world, (2,), **OWN, start_s=HOUR_S, end_s=4 * HOUR_S) == (
        "it needs 3 GPU-hours and you have reserved 6, the limit is 8 "
        "(limits.reserved_gpu_hours); make it shorter, or reserve fewer GPUs"
    )
    assert (
        why(world, (2, 3), **OWN) == "you would have 4 GPUs reserved, the limit is 3 (limits.gpus)"
    )
    assert why(world, (2, 3), **OWN, start_s=3 * HOUR_S, end_s=4 * HOUR_S) is None
    assert why(world, (2, 3, 4, 5), own=True, by_uid=BOB, end_s=60.0) is not None
    assert why(world, (2, 3), own=True, by_uid=BOB) is None, "each user has its own limit"
    assert why(world, (2, 3, 4, 5), end_s=300 * HOUR_S) is None, "root has none"
    unreserve(world, first)
    assert why(world, (2,), **OWN, end_s=8 * HOUR_S) is None


def test_with_the_limit_0_only_root_reserves() -> None:
    world = World(gpus(1), settings=dataclasses.replace(CORE, user_reserved_gpu_hours=0.0))
    assert why(world, **OWN) == (
        "only root may reserve GPUs here (limits.reserved_gpu_hours is 0); ask an administrator"
    )
    assert why(world) is None


def test_their_number_is_bounded() -> None:
    world = World(gpus(1), settings=CORE)
    for number in range(MOST_OWN):
        reserve(world, **OWN, start_s=60.0 * number, end_s=60.0 * number + 60.0)
    assert why(world, **OWN, start_s=HOUR_S, end_s=2 * HOUR_S) == (
        "you have 8 reservations, at most 8 at a time; cancel one first"
    )
    for number in range(MOST_OWN, MOST):
        reserve(world, start_s=60.0 * number, end_s=60.0 * number + 60.0)
    assert why(world, start_s=1e6, end_s=2e6) == (
        "there are 200 reservations, at most 200 at a time; cancel some first"
    )
