"""`deadline` in random lives: as `strict` without due times, and what holds with them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core.records import Checkpoint, Device
from radrm.core.rules import Order
from radrm.core.words import CheckpointKind, Quantity, ReservationKind
from radrm.deadlines import Costs
from radrm.policies.exclusive import Exclusive
from radrm.policies.packing import Packing
from radrm.policies.sharing import BestFit, Magm
from tests.contract.lives import test_starvation as starving
from tests.contract.lives.test_properties import Move, check, lives, play, policies, servers
from tests.contract.lives.test_starvation import SETTINGS, Server
from tests.examples import some
from tests.planners.due import Due, deadline
from tests.world import GIB, ORDERS, World, default_planner


@settings(max_examples=some(50))
@given(servers, policies, st.sampled_from(ORDERS), lives)
def test_without_due_times_it_is_the_default(
    devices: tuple[Device, ...], policy: Magm | Exclusive, order: Order, life: list[Move]
) -> None:
    worlds = [
        World(devices, planners=(planner,), order=order)
        for planner in (default_planner(policy), deadline(policy))
    ]
    for move in life:
        for world in worlds:
            play(world, move)
        ours, theirs = ([d.actions for d in w.decisions] for w in worlds)
        assert ours == theirs
    assert worlds[0].attempts.keys() == worlds[1].attempts.keys()
    for key, attempt in worlds[0].attempts.items():
        assert attempt.placement == worlds[1].attempts[key].placement


def play_due(world: World, move: Move) -> None:
    """Play a move; jobs get due times, ways to save and durations by their `pick`."""
    if move.kind != "submit":
        play(world, move)
        return
    at = len(world.jobs)
    due_s = [None, -50.0, 30.0, 400.0, 3000.0][(at * 7 + move.gpus) % 5]
    kinds = [CheckpointKind.NONE, CheckpointKind.SIGNAL, CheckpointKind.EXIT]
    job = world.submit(
        move.memory_mib,
        smact=move.smact,
        gpus=move.gpus,
        uid=move.uid,
        duration_s=[None, 20.0, 300.0, 2000.0][(at * 5 + move.uid) % 4],
        due_s=None if due_s is None else world.now.wall_s + due_s,
        weight=[1.0, 0.1, 20.0][at % 3],
        requeue=move.exclusive,
        checkpoint=Checkpoint(kinds[(at * 3 + move.gpus) % 3], cost_s=5.0),
        priority=int(at % 7 == 3),
    )
    world.used[job.id] = min(move.memory_mib or 1000, 30 * GIB)


QUICK = {"min_run_s": 20.0, "cooldown_s": 300.0, "restart_s": 5.0, "max_wait_s": 2000.0}


@settings(max_examples=some(50))
@given(servers, st.sampled_from([Magm(), Exclusive(), Packing()]), st.sampled_from(ORDERS), lives)
def test_what_holds_for_all_planners_holds_for_it(
    devices: tuple[Device, ...], policy: Any, order: Order, life: list[Move]
) -> None:
    world = World(devices, planners=(deadline(policy, **QUICK),), order=order)
    for move in life:
        play_due(world, move)
        for action in world.actions:
            if isinstance(action, act.TakeCheckpoint):
                assert world.jobs[action.job_id].spec.checkpoint.kind is not CheckpointKind.NONE
        if not any(each.kind == "restart" for each in life):  # after which they are asked again
            asked = Counter(a.job_id for a in world.actions if isinstance(a, act.TakeCheckpoint))
            most = 1 + (world.boot_s - 1000.0) / QUICK["cooldown_s"]
            assert not asked or max(asked.values()) <= most
        if not any(r.kind is ReservationKind.BACKFILL for r in world.stored.values()):
            check(world)
    assert not [d.log_lines for d in world.decisions if d.log_lines]


class Dues(Server):
    """A server whose jobs have due times, durations and ways to save."""

    def come(self, job: dict[str, Any], used: int) -> None:
        at = len(self.jobs)
        due_s = [None, -50.0, 300.0, 30_000.0][(at * 7 + used) % 4]
        due = {
            "duration_s": [None, 20.0, 3000.0][at % 3],
            "due_s": None if due_s is None else self.now.wall_s + due_s,
            "checkpoint": Checkpoint(
                [CheckpointKind.NONE, CheckpointKind.SIGNAL][at % 2], cost_s=5.0
            ),
        }
        super().come({**job, **due}, used)


comes = starving.move(Dues.come, job=starving.jobs, used=st.sampled_from([0, 500, 4 * GIB]))


@settings(max_examples=some(50))
@given(
    devices=starving.servers(),
    policy=st.sampled_from([Magm(), BestFit(), Exclusive(), Packing()]),
    order=st.sampled_from(ORDERS),
    life=st.lists(st.one_of(comes, comes, starving.moves), min_size=5, max_size=25),
)
def test_nobody_waits_for_ever_nor_without_a_reason(
    devices: tuple[Device, ...], policy: Any, order: Order, life: list[Any]
) -> None:
    Server.faults = {}
    rule = deadline(policy, max_wait_s=5000.0, min_run_s=20.0)
    world = Dues(devices, planners=(rule,), order=order, settings=SETTINGS[0])
    world.every = devices
    for make in life:
        make(world)
        world.read()
        world.check_reasons()
    world.end_all()
    world.check_reasons()
    world.come_back()
    world.end_all()
    for job in world.jobs.values():
        if job.state.waiting:
            assert world.why(job) == ["service"], f"job {job.id} waits on an idle server"


HALF_S = 1800.0
cheap_jobs = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 8), st.integers(1, 44), st.integers(1, 3)),
    min_size=1,
    max_size=6,
)


def late_jobs(
    jobs: list[tuple[int, int, int, int]], gpus: int, wait: bool
) -> tuple[set[int], set[int]]:
    """The jobs that end late, and those that have waited for a cheaper hour.

    Of jobs as (start, length, due, weight) in half hours from noon.
    """
    costs = Costs(prices=((0, 0.1), (6 * 60, 0.4), (22 * 60, 0.1)), wait_for_cheap=wait)
    world, late, ends = Due(gpus, costs=costs), set[int](), dict[int, float]()
    held: set[int] = set()
    world.pass_time((12 * 3600 - (world.now.wall_s % 86_400)) % 86_400)
    for at in range(120):
        for job_id, end_s in list(ends.items()):
            if end_s <= world.boot_s + 1.0:
                due_s = world.jobs[job_id].spec.due_s or 0.0
                if world.now.wall_s > due_s + 1.0:
                    late.add(job_id)
                del ends[job_id]
                world.end(job_id)
                world.read()
        for start, length, due, weight in jobs:
            if start == at:
                world.job(length * HALF_S, (length + due) * HALF_S, weight=float(weight))
        for job in world.jobs.values():
            if world.where(job) and job.id not in ends and not job.state.final:
                ends[job.id] = world.boot_s + (job.predicted(Quantity.DURATION) or 0.0)
        if at >= 30 and not ends and all(job.state.final for job in world.jobs.values()):
            return late, held
        held |= {job.id for job in world.jobs.values() if "price" in world.why(job)}
        world.pass_time(HALF_S)
    raise AssertionError("a job has not ended in 60 hours")


@settings(max_examples=some(30))
@given(cheap_jobs, st.integers(1, 2))
@example([(0, 1, 23, 1), (0, 3, 20, 1)], 1)  # the shorter one is first, although it is due later
def test_waiting_for_cheap_hours_makes_no_job_late_that_need_not_be(
    jobs: list[tuple[int, int, int, int]], gpus: int
) -> None:
    # All come at once: what comes later, nothing can know. So the others, of which each is placed
    # before the next one is known, may be late by another placement of those before them.
    jobs = [(0, length, due, weight) for _, length, due, weight in jobs]
    if not late_jobs(jobs, gpus, wait=False)[0]:
        late, held = late_jobs(jobs, gpus, wait=True)
        assert not late & held
