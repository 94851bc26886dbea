"""What holds whatever happens: random lives of random jobs, checked after every step."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.events import measure, shipped
from radrm.core import events as ev
from radrm.core.records import Device, Estimate, OutOfMemory
from radrm.core.rules import Order
from radrm.core.words import Collocation, Quantity
from radrm.orders import Fifo
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from tests.examples import some
from tests.world import GIB, ORDERS, World, gpus


@dataclass(frozen=True)
class Move:
    """One thing that happens; `pick` selects among the jobs it can happen to."""

    kind: str
    pick: int = 0
    memory_mib: int | None = None
    smact: float | None = None
    gpus: int = 1
    exclusive: bool = False
    uid: int = 1000
    seconds: float = 1.0


submits = st.builds(
    Move,
    kind=st.just("submit"),
    memory_mib=st.one_of(st.none(), st.integers(100, 50 * GIB)),
    smact=st.sampled_from([None, 0.05, 0.05, 0.4]),
    gpus=st.sampled_from([1, 1, 1, 2, 3]),
    exclusive=st.sampled_from([False, False, False, True]),
    uid=st.sampled_from([1000, 1001]),
)
others = st.builds(
    Move,
    kind=st.sampled_from(
        [
            *("end", "fail", "oom", "lost", "cancel", "time", "drain", "resume", "hold"),
            *("restart", "predict"),
        ]
    ),
    pick=st.integers(0, 50),
    smact=st.sampled_from([0.05, 0.4]),
    seconds=st.floats(0.1, 200.0),
)
lives = st.lists(st.one_of(submits, submits, others), min_size=4, max_size=40)
servers = st.sampled_from(
    [
        gpus(1),
        gpus(3),
        gpus(2, mps=True),
        (*gpus(1), Device(uuid="GPU-9", index=9, name="H100", total_mib=80 * GIB)),
    ]
)
policies = st.sampled_from([Magm(), Magm(margin_mib=0, min_free_mib=0), Exclusive()])


def build(devices: tuple[Device, ...], policy: Magm | Exclusive, order: Order) -> World:
    return World(devices, policy=policy, order=order)


def play(world: World, move: Move) -> None:
    live = [a.job_id for a in world.attempts.values() if a.ended is None]
    unfinished = [j.id for j in world.jobs.values() if not j.state.final]
    if move.kind == "submit":
        job = world.submit(
            move.memory_mib,
            smact=move.smact,
            gpus=move.gpus,
            uid=move.uid,
            collocation=Collocation.EXCLUSIVE if move.exclusive else Collocation.AUTO,
            requeue=move.exclusive,
        )
        # Estimates are right: a job uses what was estimated, or little where nothing was.
        world.used[job.id] = min(move.memory_mib or 1000, 30 * GIB)
    elif move.kind in ("end", "fail", "oom", "lost") and live:
        job_id = live[move.pick % len(live)]
        world.end(
            job_id,
            0 if move.kind == "end" else 1,
            oom=OutOfMemory("test", 500) if move.kind == "oom" else None,
            lost="gone" if move.kind == "lost" else None,
        )
    elif move.kind in ("cancel", "hold") and unfinished:
        job_id = unfinished[move.pick % len(unfinished)]
        if move.kind == "cancel":
            world.step(ev.CancelRequested(at=world.now, job_id=job_id, by="x"))
        else:
            held = bool(move.pick % 2)
            world.step(ev.HoldRequested(at=world.now, job_id=job_id, held=held))
    elif move.kind in ("drain", "resume"):
        uuid = world.devices[move.pick % len(world.devices)].uuid
        reason = "test" if move.kind == "drain" else None
        world.step(ev.DrainRequested(at=world.now, device=uuid, reason=reason))
    elif move.kind == "predict":
        found = tuple(
            Estimate(quantity, value, value, "history")
            for quantity, value in (
                (Quantity.SMACT, move.smact or 0.0),
                (Quantity.DURATION, move.seconds),
                (Quantity.MEMORY, 50.0 * GIB),
            )
        )
        some = tuple((job_id, found) for job_id in unfinished[move.pick % 3 :])
        world.step(ev.PredictionsReady(at=world.now, estimates=some))
    elif move.kind == "restart":
        world.restart()
    elif move.kind == "time":
        world.pass_time(move.seconds)


def check(world: World) -> None:
    """The reservations of the core, on the records alone."""
    live = [a for a in world.attempts.values() if a.ended is None]
    assert len({a.job_id for a in live}) == len(live), "a job is on two placements"
    for device in world.devices:
        on_it = [a for a in live if device.uuid in a.placement.devices]
        reserved = sum(
            device.capacity_mib if r.mib is None else r.mib
            for (_, uuid), r in world.reservations.items()
            if uuid == device.uuid
        )
        assert reserved <= device.capacity_mib, "a device is reserved beyond its memory"
        if any(a.placement.collocation.whole_device for a in on_it):
            assert len(on_it) == 1, "somebody joined a job that has its device to itself"
        if device.mps:
            users = {
                world.jobs[a.job_id].spec.uid
                for a in on_it
                if a.placement.collocation is Collocation.MPS
            }
            assert len(users) <= 1, "two users on one MPS server"
    for attempt in live:
        spec = world.jobs[attempt.job_id].spec
        held = {uuid for owner, uuid in world.reservations if owner == f"job:{attempt.job_id}"}
        assert len(attempt.placement.devices) == spec.gpus, "a placement is not whole"
        assert held == set(attempt.placement.devices), "reservations and placement differ"
    for job in world.jobs.values():
        known = job.id in world.scheduler.state.jobs
        assert known is not job.state.final, "a job is forgotten, or remembered too long"
        has_attempt = any(a.job_id == job.id for a in live)
        assert has_attempt is job.state.live, "state and attempts disagree"
        if job.state.waiting:
            assert world.why(job), "a waiting job cannot say why"
    owners = {owner for owner, _ in world.reservations}
    assert owners <= {f"job:{a.job_id}" for a in live}, "a reservation outlived its job"


@settings(max_examples=some(120))
@given(servers, policies, st.sampled_from(ORDERS), lives)
def test_the_reservations_hold_whatever_happens(
    devices: tuple[Device, ...], policy: Magm | Exclusive, order: Order, life: list[Move]
) -> None:
    world = build(devices, policy, order)
    check(world)
    for move in life:
        play(world, move)
        check(world)


@settings(max_examples=some(40))
@given(servers, policies, st.sampled_from(ORDERS), lives)
def test_same_events_same_decisions(
    devices: tuple[Device, ...], policy: Magm | Exclusive, order: Order, life: list[Move]
) -> None:
    worlds = [build(devices, policy, order) for _ in range(2)]
    for world in worlds:
        for move in life:
            play(world, move)
    assert worlds[0].decisions == worlds[1].decisions


@settings(max_examples=some(40))
@given(servers, lives)
def test_every_job_ends_when_devices_are_there_and_attempts_succeed(
    devices: tuple[Device, ...], life: list[Move]
) -> None:
    world = build(devices, Magm(), Fifo())
    for move in life:
        play(world, move)
    for device in devices:
        world.step(ev.DrainRequested(at=world.now, device=device.uuid, reason=None))
    for job in list(world.jobs.values()):
        world.step(ev.HoldRequested(at=world.now, job_id=job.id, held=False))
    for _ in range(3 * len(world.jobs) + 3):
        world.pass_time(200.0)
        for attempt in [a for a in world.attempts.values() if a.ended is None]:
            world.end(attempt.job_id)
    assert all(job.state.final for job in world.jobs.values())


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order.name))
def test_an_event_costs_the_same_however_long_the_queue(order: Order) -> None:
    short, long = measure(10, order), measure(1000, order)
    for name, calls in short.items():
        assert long[name] <= calls * 1.1 + 20, f"{name}: {calls} at 10 jobs, {long[name]} at 1000"


def test_an_event_under_the_shipped_rules_costs_the_same_however_many_wait_or_take_turns() -> None:
    """A planner tries its first 100 jobs; with more the cost has reached its height."""
    few, many, users = shipped(150, 8, 2), shipped(300, 8, 2), shipped(150, 24, 2)
    for name, calls in few.items():
        assert many[name] <= calls * 1.1 + 20, f"{name}: {calls} at 150 jobs, {many[name]} at 300"
        assert users[name] <= calls * 2, f"{name}: {calls} with 8 users, {users[name]} with 24"


def test_each_device_adds_the_same_to_an_event_under_the_shipped_rules() -> None:
    found = {devices: shipped(30, 8, devices) for devices in (4, 8, 16)}
    for name in found[4]:
        first, second = found[8][name] - found[4][name], found[16][name] - found[8][name]
        assert second <= 2 * max(0, first) * 1.3 + 200, f"{name}: {[found[n][name] for n in found]}"


def test_an_event_costs_no_more_calls_than_it_did() -> None:
    most = {
        "a submission": 292,
        "a round of readings": 510,
        "a cancel": 236,
        "an end and the next start": 1740,
        "a wake-up": 70,
        "an explanation": 222,
    }
    found = measure(10, Fifo())
    assert found.keys() == most.keys()
    assert {name: calls for name, calls in found.items() if calls > most[name]} == {}
