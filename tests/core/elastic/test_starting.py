"""Starts of elastic jobs: at the fewest tasks, or at what a death has shown; on nodes with room."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.proposals import ResizeTo, Start
from radrm.core.records import Needs, Node, Placement, Role, Share
from radrm.core.words import Collocation, JobState
from radrm.structs import replace
from tests.core.elastic.workers import live, servers_and_workers, workers
from tests.core.placements import CORE, Passive, propose
from tests.world import GIB, World, gpus

SPAN = (8 * GIB, 64 * GIB)


def test_a_job_starts_at_its_fewest_tasks() -> None:
    world = World(gpus(4))
    world.submit(GIB, roles=(Role(count_min=2, count_max=4),))
    assert live(world).placement.tasks() == {"main": 2}
    world = World(gpus(1), node=Node(cpus=8.0))
    world.submit(roles=servers_and_workers())
    assert live(world).placement.tasks() == {"ps": 1, "worker": 1}


@pytest.mark.parametrize("counts, there", [((), 1), ((("ps", 3),), 3), ((("ps", 9),), 4)])
def test_counts_stay_within_the_range(counts: tuple[tuple[str, int], ...], there: int) -> None:
    """An edit may have changed the range since."""
    world = World(gpus(1), node=Node(cpus=32.0))
    job = replace(world.submit(roles=servers_and_workers(), user="x"), id=9, counts=counts)
    fresh = replace(job, state=JobState.PENDING, attempts=0, started=None)
    world.step(ev.JobSubmitted(at=world.now, job=fresh))
    assert live(world, 9).placement.tasks() == {"ps": there, "worker": 1}


def test_counts_that_no_server_has_fail_the_job() -> None:
    world = World(gpus(1), node=Node(cpus=4.0))
    job = replace(world.submit(roles=servers_and_workers(), user="x"), id=9, counts=(("ps", 3),))
    world.step(ev.JobSubmitted(at=world.now, job=replace(job, state=JobState.PENDING, attempts=0)))
    assert world.jobs[9].state is JobState.FAILED
    assert world.jobs[9].reason == "needs 8 CPUs, the server has 4"


# ------------------------------------------------------------------ host memory of the whole job


def test_the_first_task_books_the_memory_of_the_job() -> None:
    world = World(gpus(4), node=Node(cpus=8.0, memory_mib=32 * GIB))
    world.submit(GIB, roles=(Role(count_min=2, count_max=4),), memory_range_mib=SPAN)
    assert [s.memory_mib for s in live(world).placement.shares] == [8 * GIB, None]
    (node,) = world.scheduler.snapshot.nodes
    assert node.memory_booked_mib == 8 * GIB


def test_a_job_waits_for_the_memory_with_which_it_starts() -> None:
    world = World(gpus(4), node=Node(memory_mib=12 * GIB))
    world.submit(GIB, memory_range_mib=SPAN)
    second = world.submit(GIB, memory_range_mib=SPAN)
    (why,) = world.scheduler.why_waiting(second.id, world.now)
    assert why.message == "needs 8.0G of host memory, 4.0G free"
    third = world.submit(GIB, memory_range_mib=(13 * GIB, 64 * GIB))
    assert world.jobs[third.id].reason == "needs 13.0G of host memory, the server has 12.0G"


@pytest.mark.parametrize(
    "memory, why",
    [
        ((8 * GIB, None), None),
        ((64 * GIB, None), None),
        ((7 * GIB, None), "needs 8.0G of host memory, 7.0G would be booked"),
        ((65 * GIB, None), "may have 64.0G of host memory, 65.0G would be booked"),
        ((8 * GIB, GIB), "task 0 of role main books the host memory of the whole job"),
    ],
)
def test_a_planner_books_the_memory_within_its_range(
    memory: tuple[int | None, ...], why: str | None
) -> None:
    world = World(gpus(4), planners=(Passive(),), settings=CORE)
    world.submit(GIB, roles=(Role(count_min=1, count_max=2),), memory_range_mib=SPAN)
    shares = zip(workers(0, 1).shares, memory, strict=True)
    placement = replace(
        workers(0), shares=tuple(replace(share, memory_mib=mib) for share, mib in shares)
    )
    refusal = propose(world, Start(job_id=1, placement=placement))
    assert (refusal.message if refusal is not None else None) == why


def test_a_placement_without_the_first_task_books_nothing_for_the_job() -> None:
    world = World(gpus(4), planners=(Passive(),), settings=CORE)
    world.submit(GIB, roles=(Role(count_max=2),), memory_range_mib=SPAN)
    refusal = propose(world, Start(job_id=1, placement=workers(1)))
    assert "task 0 of role main books" in refusal.message


# ------------------------------------------------------------------ several nodes


def cluster(*cpus: float) -> World:
    devices = [replace(gpu, node=f"n{gpu.index}") for gpu in gpus(len(cpus))]
    world = World(devices)
    nodes = tuple(Node(f"n{i}", cpus=number, memory_mib=GIB) for i, number in enumerate(cpus))
    world.step(ev.NodesSeen(at=world.now, nodes=nodes))
    world.read()
    return world


def where(world: World, job_id: int = 1) -> list[str]:
    return [share.node for share in live(world, job_id).placement.shares]


def test_tasks_without_a_gpu_go_to_nodes_with_room() -> None:
    world = cluster(3.0, 8.0, 5.0)
    world.submit(roles=(Role("w", 6, 6, needs=Needs(gpus=0, cpus=2.0)),))
    assert where(world) == ["n1"] * 4 + ["n2"] * 2
    other = world.submit(roles=(Role("w", 2, 2, needs=Needs(gpus=0, cpus=1.0)),))
    assert where(world, other.id) == ["n0", "n0"]


def test_a_server_is_near_the_gpus_of_its_workers() -> None:
    world = cluster(8.0, 4.0)
    roles = (
        Role("ps", needs=Needs(gpus=0, cpus=2.0)),
        Role("worker", needs=Needs(gpus=1, cpus=2.0)),
    )
    job = world.submit(GIB, smact=0.1, roles=roles, prefer_gpus=("1",))
    assert world.where(job) == ("GPU-1",) and where(world) == ["n1", "n1"]


def test_a_task_without_a_gpu_can_be_moved_by_a_resize() -> None:
    """As DLRover moves a slow parameter server (section 5.4)."""
    world = cluster(8.0, 4.0)
    world.submit(roles=servers_and_workers())
    shares = live(world).placement.shares
    there = replace(live(world).placement, shares=(replace(shares[0], node="n1"), *shares[1:]))
    assert propose(world, ResizeTo(job_id=1, placement=there)) is None
    assert where(world) == ["n1", "n0"]
    nowhere = replace(there, shares=(replace(shares[0], node="n9"), *shares[1:]))
    assert propose(world, ResizeTo(job_id=1, placement=nowhere)).rule == "node"


def test_gpus_where_no_cpu_is_left_are_not_chosen() -> None:
    world = cluster(1.0, 4.0)
    job = world.submit(GIB, smact=0.1, cpus=3.0, prefer_gpus=("0",))
    assert world.where(job) == ("GPU-1",)
    again = world.submit(GIB, smact=0.1, cpus=2.0)
    (why, *_) = world.scheduler.why_waiting(again.id, world.now)
    assert why.message == "needs 2 CPUs, 1 free"


def test_on_one_node_both_numbers_are_told() -> None:
    world = World(gpus(2), node=Node(cpus=2.0))
    world.submit(GIB, smact=0.1, cpus=2.0)
    second = world.submit(GIB, smact=0.1, cpus=1.0)
    assert world.why(second) == ["cpus"]
    shares = (Share("GPU-1", GIB, cpus=1.0),)
    refusal = propose(world, Start(job_id=2, placement=Placement(shares, Collocation.TIMESLICE)))
    assert refusal.message == "needs 1 CPU, 0 free"
