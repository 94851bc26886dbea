"""Host memory of jobs with a range: growth in place, and what follows a death at the limit."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import ResizeTo, SetShares
from radrm.core.records import Exit, HostUse, Needs, Node, Role
from radrm.core.words import JobState, Resizing, StopReason
from radrm.structs import replace
from tests.core.elastic.workers import failed, live, servers_and_workers
from tests.core.placements import SAVES, propose
from tests.world import GIB, World, gpus

SPAN = (8 * GIB, 64 * GIB)


def running(there: int = 128 * GIB, **spec: Any) -> World:
    world = World(gpus(2), node=Node(cpus=64.0, memory_mib=there))
    spec = {"memory_range_mib": SPAN, "checkpoint": SAVES, **spec}
    world.submit(GIB, smact=0.1, **spec)
    assert world.state(1) is JobState.RUNNING
    return world


def use(world: World, mib: int | None, job_id: int = 1) -> list[int | None]:
    """Report a job's use. Returns the host memory that was asked for it, if any was."""
    attempt = live(world, job_id)
    used = HostUse(world.now, memory_mib=mib)
    uses = ((job_id, attempt.serial, used),)
    decision = world.step(ev.HostUsed(at=world.now, uses=uses))
    found = [a for a in decision.actions if isinstance(a, act.ApplyShares)]
    return [action.shares[0].memory_mib for action in found]


def booked(world: World) -> int | None:
    return live(world).placement.shares[0].memory_mib


# ------------------------------------------------------------------ growth in place


def test_memory_doubles_near_its_limit_up_to_the_range() -> None:
    world = running()
    assert use(world, 7 * GIB) == [] and use(world, None) == []
    assert use(world, int(7.3 * GIB)) == [16 * GIB]
    assert booked(world) == 16 * GIB
    assert use(world, int(7.3 * GIB)) == []
    for used, then in ((15, 32), (31, 64)):
        assert use(world, used * GIB) == [then * GIB]
    assert use(world, 64 * GIB) == []
    (node,) = world.scheduler.snapshot.nodes
    assert node.memory_booked_mib == 64 * GIB


def test_memory_grows_into_the_room_of_the_node_if_that_is_worth_an_action() -> None:
    world = running(12 * GIB)
    assert use(world, 8 * GIB) == [12 * GIB]
    assert use(world, 12 * GIB) == []
    assert use(running(8 * GIB + 63), 8 * GIB) == []
    assert use(running(8 * GIB + 64), 8 * GIB) == [8 * GIB + 64]
    assert use(running(memory_range_mib=(8 * GIB, 8 * GIB + 9)), 8 * GIB) == [8 * GIB + 9]


def test_what_is_being_applied_is_not_asked_for_twice() -> None:
    world = running()
    world.obey = False
    assert use(world, 8 * GIB) == [16 * GIB]
    assert use(world, 8 * GIB) == []
    (node,) = world.scheduler.snapshot.nodes
    assert node.memory_booked_mib == 16 * GIB, "booked while it is being applied"


def test_a_growth_that_failed_waits_and_lets_cpus_be_set() -> None:
    world = running()
    world.obey = False
    use(world, 8 * GIB)
    failed(world, world.actions[-1])
    assert use(world, 8 * GIB) == []
    shares = tuple(replace(s, cpus=2.0) for s in live(world).placement.shares)
    assert propose(world, SetShares(job_id=1, shares=shares)) is None
    failed(world, world.actions[-1])
    world.pass_time(1.0)
    assert use(world, 8 * GIB) == [16 * GIB]


def test_nobody_grows_while_a_job_waits_for_memory() -> None:
    world = running(32 * GIB)
    waits = world.submit(GIB, smact=0.1, host_mib=25 * GIB)
    assert world.why(waits) == ["memory"]
    assert use(world, 8 * GIB) == []
    world.cancel(waits)
    assert use(world, 8 * GIB) == [16 * GIB]


@pytest.mark.parametrize("stop", [True, False])
def test_a_job_that_is_stopped_or_without_a_range_does_not_grow(stop: bool) -> None:
    world = running() if stop else running(memory_range_mib=None)
    world.obey = False
    if stop:
        world.cancel(1)
        assert live(world).stop.reason is StopReason.CANCELLED
    assert use(world, 100 * GIB) == []


@pytest.mark.parametrize(
    "mib, why",
    [
        (8 * GIB, None),
        (16 * GIB, None),
        (64 * GIB, None),
        (65 * GIB, "its host memory can grow from 8.0G to 64.0G, not to 65.0G"),
        (4 * GIB, "its host memory can grow from 8.0G to 64.0G, not to 4.0G"),
        (None, "its host memory can grow from 8.0G to 64.0G, not to 0M"),
    ],
)
def test_shares_may_raise_the_memory_within_its_range(mib: int | None, why: str | None) -> None:
    world = running()
    shares = tuple(replace(s, memory_mib=mib) for s in live(world).placement.shares)
    refusal = propose(world, SetShares(job_id=1, shares=shares))
    assert (refusal.message if refusal is not None else None) == why


def test_only_the_first_task_books() -> None:
    world = running(roles=(Role(count_min=2, count_max=2),))
    first, second = live(world).placement.shares
    shares = (first, replace(second, memory_mib=GIB))
    refusal = propose(world, SetShares(job_id=1, shares=shares))
    assert "task 0 of role main books" in refusal.message


def test_a_growth_leaves_the_sm_fraction_of_the_next_attempt() -> None:
    world = running()
    shares = tuple(replace(s, sm_fraction=0.5) for s in live(world).placement.shares)
    assert propose(world, SetShares(job_id=1, shares=shares)) is None
    assert use(world, 8 * GIB) == [16 * GIB]
    assert world.jobs[1].sm_fraction == 0.5


# ------------------------------------------------------------------ a death at the limit


def die(world: World, role: str = "main", job_id: int = 1, **about: Any) -> None:
    attempt = live(world, job_id)
    exits = tuple(Exit(signal=9) for _ in attempt.tasks)
    world.step(
        ev.AttemptEnded(
            at=world.now,
            job_id=job_id,
            serial=attempt.serial,
            exits=exits,
            host_oom=role,
            **about,
        )
    )
    world.pass_time(700.0)


def test_the_next_attempt_books_twice_as_much_up_to_the_range() -> None:
    world = running()
    for then in (16, 32, 64):
        die(world)
        assert booked(world) == then * GIB, "without a retry"
    assert world.attempts[1, 1].reason == "a task of role main ran out of host memory"
    die(world)
    assert world.state(1) is JobState.FAILED
    assert world.jobs[1].reason == (
        "a task of role main ran out of host memory; it had 64.0G, the most of its range"
    )
    assert world.jobs[1].retries_used == 0 and world.jobs[1].attempts == 4


def test_a_death_after_growth_in_place_counts_from_there() -> None:
    world = running()
    use(world, 8 * GIB)
    die(world)
    assert booked(world) == 32 * GIB


def test_a_job_gets_no_more_than_a_server_has() -> None:
    world = running(24 * GIB)
    die(world)
    assert booked(world) == 16 * GIB
    die(world)
    assert booked(world) == 24 * GIB
    die(world)
    assert str(world.jobs[1].reason).endswith("it had 24.0G, the most that a server here has")


def test_it_survives_a_restart_and_a_requeue() -> None:
    world = running()
    die(world)
    world.restart()
    assert booked(world) == 16 * GIB
    world.end(1)
    world.requeue(1)
    assert booked(world) == 16 * GIB


def test_the_reason_of_the_host_is_kept() -> None:
    world = running()
    die(world, failure="it used more than its 8.0G of host memory")
    assert world.attempts[1, 1].reason == "it used more than its 8.0G of host memory"
    assert booked(world) == 16 * GIB


def test_a_job_without_a_range_fails_as_before() -> None:
    world = running(memory_range_mib=None, retries=1)
    die(world)
    assert world.jobs[1].retries_used == 1
    die(world)
    assert world.state(1) is JobState.FAILED


def test_the_number_of_parameter_servers_doubles() -> None:
    world = running(roles=servers_and_workers(), memory_range_mib=None)
    for then in (2, 4):
        die(world, "ps")
        assert live(world).placement.tasks() == {"ps": then, "worker": 1}
    die(world, "ps")
    assert str(world.jobs[1].reason).endswith("it had 4 tasks of role ps, the most of its range")


def test_a_resize_under_way_does_not_bring_the_old_number_of_servers_back() -> None:
    roles, how = servers_and_workers(), Resizing.RESTART
    world = running(roles=roles, memory_range_mib=None, resizing=how)
    world.obey = False
    shares = live(world).placement.shares
    more = replace(live(world).placement, shares=(*shares, replace(shares[1], task=1)))
    assert propose(world, ResizeTo(job_id=1, placement=more)) is None
    die(world, "ps")
    assert live(world).placement.tasks() == {"ps": 2, "worker": 1}
    assert world.jobs[1].target is None


def test_a_worker_gets_memory_and_not_more_workers() -> None:
    world = running(roles=servers_and_workers())
    die(world, "worker")
    assert live(world).placement.tasks() == {"ps": 1, "worker": 1}
    assert booked(world) == 16 * GIB


def test_at_their_most_servers_get_memory() -> None:
    needs = Needs(gpus=0, cpus=2.0)
    roles = (Role("ps", 1, 4, step=3, needs=needs), Role("worker", needs=needs))
    world = running(roles=roles)
    die(world, "ps")
    assert live(world).placement.tasks() == {"ps": 1, "worker": 1}, "two are not allowed"
    assert booked(world) == 16 * GIB


def test_more_servers_than_there_is_room_for_are_refused_with_the_reason() -> None:
    world = World(gpus(1), node=Node(cpus=5.0))
    world.submit(roles=servers_and_workers())
    die(world, "ps")
    assert str(world.jobs[1].reason).endswith("; needs 6 CPUs, the server has 5")


def test_a_stop_comes_before_it() -> None:
    world = running()
    world.obey = False
    world.cancel(1)
    die(world)
    assert world.state(1) is JobState.CANCELLED and world.jobs[1].memory_mib is None
