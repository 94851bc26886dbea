"""What no rule may break, as a table: each rule alone stands between a job and a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.constraints.feasibility import hopeless
from radrm.core.constraints.fit import can_be_time_sliced, mode_on
from radrm.core.constraints.need import effective_need_mib
from radrm.core.records import (
    Estimate,
    Needs,
    Placement,
    Reading,
    Reservation,
    Role,
    Share,
)
from radrm.core.words import (
    Collocation,
    Quantity,
    ReservationKind,
)
from radrm.structs import replace
from tests.core.placements import MIG, MPS, SLICE, WHOLE, on, refused, server, start
from tests.world import GIB, World, gpus

# ------------------------------------------------------------------ needs


MIXED = (*gpus(1, 80 * GIB), *(replace(d, uuid=f"S{i}") for i, d in enumerate(gpus(2, 40 * GIB))))
NEEDS = [  # gpus, estimate GiB, source, what is proven; the need that counts, and the way
    (1, 30, "test", None, 30, SLICE),
    (1, 60, "test", None, 60, SLICE),
    (1, 90, "test", None, 80, WHOLE),
    (2, 60, "test", None, 40, WHOLE),  # the second largest has 40
    (3, 90, "test", None, 40, WHOLE),
    (2, 30, "test", None, 30, SLICE),
    (1, 90, "declared", None, 90, WHOLE),  # what is declared is never clamped
    (2, 60, "declared", None, 60, WHOLE),
    (1, 90, "test", 85, 85, WHOLE),  # nor what a death has proven
    (1, 30, "test", 35, 35, SLICE),
    (4, 90, "test", None, 90, SLICE),  # on more GPUs than there are nothing is known
]


@pytest.mark.parametrize("count, gib, source, proven, need_gib, mode", NEEDS)
def test_an_estimate_beyond_the_devices_is_clamped_to_what_as_many_have(
    count: int, gib: int, source: str, proven: int | None, need_gib: int, mode: Collocation
) -> None:
    world = server(*MIXED)
    state = world.scheduler.state
    declared = gib * GIB if source == "declared" else None
    role = Role(needs=Needs(gpus=count, gpu_memory_mib=declared))
    held = world.submit(GIB)
    job = replace(
        held,
        spec=replace(held.spec, roles=(role,)),
        estimates=(Estimate(Quantity.MEMORY, gib * GIB, gib * GIB, source),),
        memory_floor_mib=None if proven is None else proven * GIB,
    )
    assert effective_need_mib(state, job, role) == need_gib * GIB
    assert mode_on(state, job, role, state.ledgers["GPU-0"]) is mode


# ------------------------------------------------------------------ a job and a device


def untouched(world: World) -> None:
    pass


def drained(world: World) -> None:
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))


def vanished(world: World) -> None:
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices[1:]))


def stale(world: World) -> None:
    world.boot_s += 6.0


def broken(world: World) -> None:
    world.broken["GPU-0"] = "GPU is lost"
    world.read()


def faulty(world: World) -> None:
    faulty = Reading("GPU-0", world.now, used_mib=0, fault="Xid 48")
    world.step(ev.ReadingsTaken(at=world.now, readings=(faulty,)))


def full(world: World) -> None:
    world.unmanaged["GPU-0"] = 39 * GIB + 1
    world.read()


def in_use(world: World) -> None:
    world.unmanaged["GPU-0"] = 1000
    world.read()


def shared(world: World) -> None:
    start(world, world.submit(GIB), on("GPU-0"))
    world.read()


def held_alone(world: World) -> None:
    start(world, world.submit(GIB), on("GPU-0", mode=WHOLE))
    world.read()


def reserved(world: World) -> None:
    """The target of another job's migration."""
    kind, until = ReservationKind.MIGRATION, world.now.at(world.boot_s + 1000.0)
    world.scheduler.state.reserve(Reservation("job:99", kind, "GPU-0", GIB, world.now, until))


WHOLE_JOB = {"collocation": WHOLE}
DEVICES: list[tuple[Callable[[World], None], dict[str, Any], Placement, str | None]] = [
    (untouched, {}, on("GPU-0"), None),
    (untouched, {}, on("GPU-0", mode=WHOLE), None),
    (untouched, {}, on("nowhere"), "vanished"),
    (vanished, {}, on("GPU-0"), "vanished"),
    (drained, {}, on("GPU-0"), "drained"),
    (drained, {}, on("GPU-1"), None),
    (stale, {}, on("GPU-0"), "reading"),
    (broken, {}, on("GPU-0"), "reading"),
    (faulty, {}, on("GPU-0"), "reading"),
    (untouched, {"roles": (Role(needs=Needs(mig_profile="1g.5gb")),)}, on("GPU-0"), "kind"),
    (untouched, {"collocation": MPS}, on("GPU-0", mode=MPS), "kind"),
    (untouched, {"collocation": Collocation.MIG}, on("GPU-0"), "kind"),
    # shapes
    (untouched, {}, on("GPU-0", "GPU-1"), "count"),
    (untouched, {"gpus": 2}, on("GPU-0"), "count"),
    (untouched, {"gpus": 2}, on("GPU-0", "GPU-0"), "count"),
    (untouched, {"gpus": 2}, on("GPU-0", "GPU-1"), None),
    (untouched, {"gpus": 0}, on(None), None),
    (untouched, {}, Placement((Share("GPU-0", GIB, role="other"),), SLICE), "count"),
    (untouched, {}, Placement((Share("GPU-0", GIB), Share("GPU-1", role="x")), SLICE), "role"),
    # room
    (untouched, {"memory_mib": 2 * GIB}, on("GPU-0", mib=GIB), "reservation"),
    (untouched, {"memory_mib": 40 * GIB}, on("GPU-0", mib=40 * GIB), None),
    (full, {}, on("GPU-0"), "memory"),
    (shared, {"memory_mib": 39 * GIB}, on("GPU-0", mib=39 * GIB), None),
    (shared, {"memory_mib": 40 * GIB}, on("GPU-0", mib=40 * GIB), "memory"),
    (reserved, {"memory_mib": 40 * GIB}, on("GPU-0", mib=40 * GIB), "memory"),
    # company
    (shared, {}, on("GPU-0"), None),
    (shared, {}, on("GPU-0", mode=MPS), "mode"),
    (held_alone, {}, on("GPU-0"), "taken"),
    (held_alone, {}, on("GPU-1"), None),
    # the whole device: for a job that wants one...
    (untouched, WHOLE_JOB, on("GPU-0", mode=WHOLE), None),
    (untouched, WHOLE_JOB, on("GPU-0"), "mode"),
    (shared, WHOLE_JOB, on("GPU-0", mode=WHOLE), "not idle"),
    (reserved, WHOLE_JOB, on("GPU-0", mode=WHOLE), "not idle"),
    (in_use, WHOLE_JOB, on("GPU-0", mode=WHOLE), "not idle"),
    # ...and for one that would share, but is given one
    (shared, {}, on("GPU-0", mode=WHOLE), "not idle"),
    (reserved, {}, on("GPU-0", mode=WHOLE), "not idle"),
    (in_use, {}, on("GPU-0", mode=WHOLE), "not idle"),
    (held_alone, {}, on("GPU-0", mode=WHOLE), "taken"),
]


@pytest.mark.parametrize("what, wish, placement, rule", DEVICES)
def test_the_rule_between_a_job_and_a_placement(
    what: Callable[[World], None], wish: dict[str, Any], placement: Placement, rule: str | None
) -> None:
    world = server()
    what(world)
    job = world.submit(**{"memory_mib": GIB, **wish})
    assert refused(world, job, placement) == rule


@pytest.mark.parametrize(
    "unmanaged, yields, rule", [(1000, True, "unmanaged"), (1000, False, None)]
)
def test_unmanaged_processes_are_counted_or_yielded_to(
    unmanaged: int, yields: bool, rule: str | None
) -> None:
    world = server(yield_to_unmanaged=yields)
    world.unmanaged["GPU-0"] = unmanaged
    world.read()
    assert refused(world, world.submit(GIB), on("GPU-0")) == rule


def test_a_policy_that_overcommits_may() -> None:
    world = server(overcommit=True)
    full(world)
    assert refused(world, world.submit(GIB), on("GPU-0")) is None


AVAILABLE = [  # the job's time limit; seconds for which the device is there; the rule
    (None, None, None),
    (600.0, 601.0, None),
    (600.0, 600.0, None),
    (600.0, 599.0, "availability"),
    (None, 1e9, "availability"),  # nobody knows how long it takes
    (1.0, 0.0, "availability"),
    (1.0, -5.0, "availability"),
]


@pytest.mark.parametrize("limit_s, there_s, rule", AVAILABLE)
def test_a_device_that_leaves_takes_who_is_done_before(
    limit_s: float | None, there_s: float | None, rule: str | None
) -> None:
    until = None if there_s is None else World().now.wall_s + there_s
    world = server(*gpus(1, available_until=until))
    assert refused(world, world.submit(GIB, time_limit_s=limit_s), on("GPU-0")) == rule


KINDS = [  # the device, the wish, GPUs, the rule
    (MIG, Collocation.AUTO, 1, None),
    (MIG, MPS, 1, "kind"),
    (MIG, SLICE, 1, "kind"),
    (MIG, WHOLE, 1, None),
    (MIG, Collocation.AUTO, 2, "kind"),
    ({"mps": True}, MPS, 1, None),
    ({"mps": True}, MPS, 2, "kind"),
    ({"mps": True, "mps_spans": True}, MPS, 2, None),
    ({"mps": True}, Collocation.AUTO, 2, None),
]


@pytest.mark.parametrize("device, wish, count, rule", KINDS)
def test_which_kinds_of_device_suit_which_wish(
    device: dict[str, Any], wish: Collocation, count: int, rule: str | None
) -> None:
    world = server(*gpus(2, **device))
    needs = Needs(gpus=count)
    job = world.submit(GIB, collocation=wish, roles=(Role(needs=needs),))
    state = world.scheduler.state
    mode = mode_on(state, job, job.spec.roles[0], state.ledgers["GPU-0"])
    assert refused(world, job, on(*[f"GPU-{i}" for i in range(count)], mode=mode)) == rule
    assert (hopeless(state, job) is None) == (rule is None)


COHORTS = [  # several users at once; bob's wish, and the rule
    (False, MPS, "cohort"),
    (False, SLICE, None),
    (False, Collocation.AUTO, None),  # as a time-sliced job
    (True, MPS, None),
]


@pytest.mark.parametrize("several, wish, rule", COHORTS)
def test_who_may_join_the_clients_of_another_user(
    several: bool, wish: Collocation, rule: str | None
) -> None:
    world = server(*gpus(1, mps=True, mps_multiuser=several))
    start(world, world.submit(GIB, uid=1), on("GPU-0", mode=MPS))
    world.read()
    bob = world.submit(GIB, uid=2, user="bob", collocation=wish)
    state = world.scheduler.state
    mode = mode_on(state, bob, bob.spec.roles[0], state.ledgers["GPU-0"])
    assert refused(world, bob, on("GPU-0", mode=mode)) == rule


@pytest.mark.parametrize(
    ("mode", "most", "wish", "may"),
    [
        (MPS, 2, Collocation.AUTO, True),
        (MPS, 1, Collocation.AUTO, False),
        (MPS, 2, MPS, False),
        (SLICE, 2, Collocation.AUTO, False),
        (WHOLE, 2, Collocation.AUTO, False),
    ],
)
def test_a_job_on_several_devices_may_be_time_sliced_where_it_would_be_a_client(
    mode: Collocation, most: int, wish: Collocation, may: bool
) -> None:
    job = server().submit(GIB, collocation=wish, roles=(Role(count_max=most),))
    assert can_be_time_sliced(job, mode) is may
