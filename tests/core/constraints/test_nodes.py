"""CPUs and host memory of a node: what is booked, what is refused, what a job waits for."""

from __future__ import annotations

import pytest

from radrm.core.in_service import GONE_AFTER_S
from radrm.core.records import LOCAL_NODE, Job, Needs, Node, Role
from radrm.core.settings import CoreSettings
from radrm.core.words import Collocation, JobState
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.core.constraints.node import NODE, booked
from tests.world import GIB, World, gpus


def small(count: int = 4, node: Node = NODE, **settings: object) -> World:
    """A server of 8 CPUs and 64 GiB, whose GPUs are taken one job each."""
    return World(gpus(count), policy=Exclusive(), node=node, **settings)


def free(world: World) -> tuple[float | None, int | None]:
    (use,) = world.scheduler.snapshot.nodes
    return use.cpus_free, use.memory_free_mib


def says(world: World, job: Job) -> list[str]:
    return [r.message for r in world.scheduler.why_waiting(job.id, world.now)]


# ------------------------------------------------------------------ booking


def test_a_job_books_what_it_asks_for_and_returns_it() -> None:
    world = small()
    job = world.submit(GIB, cpus=3, host_mib=10 * GIB)
    assert booked(world) == (3.0, 10 * GIB)
    assert free(world) == (5.0, 54 * GIB)
    assert world.scheduler.view.nodes() == world.scheduler.snapshot.nodes
    world.submit(GIB)
    assert booked(world) == (3.0, 10 * GIB), "a job that asks for nothing books nothing"
    world.end(job)
    assert booked(world) == (0.0, 0)


def test_a_task_on_two_gpus_counts_once_and_each_task_counts() -> None:
    world = small()
    world.submit(GIB, gpus=2, cpus=3, host_mib=GIB)
    assert booked(world) == (3.0, GIB)
    workers = Role(name="w", count_min=2, count_max=2, needs=Needs(gpus=1, cpus=2, memory_mib=5))
    world.submit(GIB, roles=(workers,))
    assert booked(world) == (7.0, GIB + 10)


def test_tenths_of_cpus_do_not_drift() -> None:
    world = small(0, node=Node(LOCAL_NODE, cpus=0.3))
    jobs = [world.submit(gpus=0, cpus=0.1) for _ in range(3)]
    assert [world.state(job) for job in jobs] == [JobState.RUNNING] * 3, "0.1 three times is 0.3"
    assert free(world) == (0.0, None)
    for _ in range(50):
        world.end(jobs.pop(0))
        jobs.append(world.submit(gpus=0, cpus=0.1))
    assert booked(world) == (0.3, 0)


@pytest.mark.parametrize(
    "second, rule, message",
    [
        ({"cpus": 3}, None, ""),
        ({"cpus": 3.5}, "cpus", "needs 3.5 CPUs, 3 free"),
        ({"cpus": 8}, "cpus", "needs 8 CPUs, 3 free"),
        ({"host_mib": 44 * GIB}, None, ""),
        ({"host_mib": 44 * GIB + 1}, "memory", "needs 44.0G of host memory, 44.0G free"),
        ({"cpus": 1, "host_mib": 60 * GIB}, "memory", "needs 60.0G of host memory, 44.0G free"),
        ({"cpus": 1, "host_mib": 100}, None, ""),
    ],
)
@pytest.mark.parametrize("count", [0, 1])
def test_what_is_booked_is_refused_to_others_with_both_numbers(
    second: dict[str, float], rule: str | None, message: str, count: int
) -> None:
    world = small()
    first = world.submit(GIB, cpus=5, host_mib=20 * GIB)
    job = world.submit(GIB, gpus=count, **second)
    assert world.state(job) is (JobState.RUNNING if rule is None else JobState.PENDING)
    if rule is not None:
        assert world.why(job) == [rule]
        assert says(world, job) == [message]
        world.end(first)
        assert world.state(job) is JobState.RUNNING


def test_without_a_known_capacity_nothing_is_limited() -> None:
    world = World(gpus(2), policy=Exclusive())
    jobs = [world.submit(GIB, cpus=4000, host_mib=2**40) for _ in range(2)]
    assert [world.state(job) for job in jobs] == [JobState.RUNNING] * 2
    half = World(gpus(2), policy=Exclusive(), node=Node(LOCAL_NODE, memory_mib=GIB))
    assert half.state(half.submit(GIB, cpus=4000, host_mib=GIB)) is JobState.RUNNING
    assert half.state(half.submit(GIB, host_mib=1)) is JobState.PENDING


def test_a_restart_books_the_same() -> None:
    world = small()
    for cpus in (0.1, 0.2, 3.0):
        world.submit(GIB, cpus=cpus, host_mib=GIB)
    before = booked(world)
    world.restart()
    assert booked(world) == before == (3.3, 3 * GIB)
    late = world.submit(GIB, cpus=4.8)
    assert says(world, late) == ["needs 4.8 CPUs, 4.7 free"]


# ------------------------------------------------------------------ jobs that can never run


@pytest.mark.parametrize("count", [0, 1])
def test_a_job_beyond_the_server_fails_at_submission(count: int) -> None:
    world = small()
    job = world.submit(GIB, gpus=count, cpus=64)
    assert world.state(job) is JobState.FAILED
    assert job.reason == "needs 64 CPUs, the server has 8"
    large = world.submit(GIB, gpus=count, host_mib=65 * GIB)
    assert large.reason == "needs 65.0G of host memory, the server has 64.0G"
    world.submit(GIB, cpus=8)
    waiting = world.submit(GIB, gpus=count, cpus=8)
    roles = (Role(needs=Needs(gpus=count, cpus=9)),)
    assert world.edit(waiting, roles=roles) == "needs 9 CPUs, the server has 8"


def test_all_roles_count_together() -> None:
    world = small()
    role = Role(name="a", needs=Needs(gpus=1, cpus=5))
    job = world.submit(GIB, roles=(role, replace(role, name="b")))
    assert job.reason == "needs 10 CPUs, the server has 8"


def test_capacity_that_shrinks_stops_no_job_and_takes_no_new_one() -> None:
    world = small()
    runs = world.submit(GIB, cpus=6)
    world.see_nodes(Node(LOCAL_NODE, cpus=4.0, memory_mib=64 * GIB))
    assert free(world) == (0.0, 64 * GIB)
    job = world.submit(GIB, cpus=1)
    assert world.state(runs) is JobState.RUNNING
    assert says(world, job) == ["needs 1 CPU, 0 free"]
    world.end(runs)
    assert world.state(job) is JobState.RUNNING


@pytest.mark.parametrize("count", [0, 1])
def test_a_job_that_no_longer_fits_the_server_lets_others_pass_and_fails_in_the_end(
    count: int,
) -> None:
    world = small()
    first = world.submit(GIB, gpus=count, cpus=8)
    large = world.submit(GIB, gpus=count, cpus=8)
    other = world.submit(GIB, gpus=count, cpus=2)
    world.see_nodes(Node(LOCAL_NODE, cpus=4.0))
    assert world.why(large) == ["service"]
    world.end(first)
    assert world.state(other) is JobState.RUNNING
    world.pass_time(GONE_AFTER_S + 1)
    assert world.state(large) is JobState.FAILED
    assert world.jobs[large.id].reason == "needs 8 CPUs, the server has 4"


def test_a_job_comes_back_from_aside_when_the_capacity_does() -> None:
    world = small()
    first = world.submit(gpus=0, cpus=8)
    large = world.submit(gpus=0, cpus=8)
    world.see_nodes(Node(LOCAL_NODE, cpus=4.0))
    world.end(first)
    world.see_nodes(NODE)
    assert world.state(large) is JobState.RUNNING


# ------------------------------------------------------------------ lines


@pytest.mark.parametrize("count", [0, 1])
def test_no_job_passes_one_that_waits_for_cpus(count: int) -> None:
    """Also not in the other line: small jobs there could take the CPUs forever."""
    world = small()
    runs = world.submit(GIB, cpus=5)
    head = world.submit(GIB, gpus=count, cpus=8)
    small_one = world.submit(GIB, gpus=1 - count, cpus=1)
    nothing = world.submit(GIB, gpus=1 - count)
    assert world.state(small_one) is JobState.PENDING
    assert world.why(small_one) == ["order"]
    assert f"job {head.id}" in says(world, small_one)[0]
    assert world.state(nothing) is JobState.PENDING, "its own line is strict"
    world.cancel(small_one)
    assert world.state(nothing) is JobState.RUNNING, "it takes no CPU"
    world.end(runs)
    assert world.state(head) is JobState.RUNNING


def test_an_earlier_job_of_the_other_line_goes_on() -> None:
    world = small()
    world.submit(GIB, cpus=5)
    world.submit(gpus=0, cpus=8)
    urgent = world.submit(GIB, cpus=1, priority=5)
    assert world.state(urgent) is JobState.RUNNING


def test_no_mps_server_runs_empty_for_a_job_that_lacks_cpus() -> None:
    world = World(gpus(2, mps=True), node=NODE)
    first = world.submit(GIB, smact=0.1, cpus=1, uid=1)
    other = world.submit(GIB, smact=0.1, cpus=6, uid=1)
    assert world.where(first) != world.where(other)
    world.pass_time(world.settings.mps_cohort_s + 1)
    bob = world.submit(GIB, smact=0.1, cpus=4, uid=2, user="bob")
    device = world.where(first)[0]
    view = world.scheduler.view
    assert view.next_by_turn(device) is None, "7 CPUs are booked, 6 of them elsewhere"
    assert view.next_by_turn(world.where(other)[0]).id == bob.id, "the jobs here leave 7 CPUs"


def test_a_job_without_a_gpu_takes_no_turn_on_an_mps_server() -> None:
    settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, gpuless_at_once=1)
    world = World(gpus(1, mps=True), settings=settings)
    world.submit(gpus=0, uid=1)
    first = world.submit(GIB, smact=0.1, uid=1)
    world.pass_time(settings.mps_cohort_s + 1)
    world.submit(gpus=0, uid=2, user="bob")
    bob = world.submit(GIB, smact=0.1, uid=2, user="bob", collocation=Collocation.MPS)
    assert world.scheduler.view.next_by_turn(world.where(first)[0]).id == bob.id
