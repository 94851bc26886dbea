"""What the placements, caps, resizes and migrations of planners book of a node."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, ResizeTo, SetShares
from radrm.core.records import LOCAL_NODE, Job, Needs, Node, Placement, Role, Share
from radrm.core.settings import CoreSettings
from radrm.core.words import Resizing
from radrm.structs import replace
from tests.core.constraints.node import NODE, booked
from tests.core.placements import SAVES, SLICE, Passive, on, propose, refused, server, start
from tests.world import GIB, World, gpus


def share(gpu: str | None = "GPU-0", task: int = 0, **caps: Any) -> Share:
    return Share(gpu, GIB if gpu else 0, task=task, **caps)


BAD = [  # a share of a job that needs 2 CPUs and 1 GiB; the rule
    ({"cpus": 2.0, "memory_mib": GIB}, None),
    ({"cpus": 4.0, "memory_mib": 2 * GIB}, None),
    ({"cpus": 2.0}, "reservation"),
    ({"memory_mib": GIB}, "reservation"),
    ({"cpus": 1.9, "memory_mib": GIB}, "reservation"),
    ({"cpus": 2.0, "memory_mib": GIB - 1}, "reservation"),
    ({"cpus": -2.0, "memory_mib": GIB}, "shares"),
    ({"cpus": 2.0, "memory_mib": -GIB}, "shares"),
    ({"cpus": 2.0, "memory_mib": GIB, "sm_fraction": 1.5}, "shares"),
    ({"cpus": 9.0, "memory_mib": GIB}, "cpus"),
    ({"cpus": 2.0, "memory_mib": 65 * GIB}, "memory"),
    ({"cpus": 2.0, "memory_mib": GIB, "node": "elsewhere"}, "node"),
]


@pytest.mark.parametrize("caps, rule", BAD)
@pytest.mark.parametrize("gpu", ["GPU-0", None])
def test_a_placement_books_what_its_job_needs_and_what_there_is(
    caps: dict[str, Any], rule: str | None, gpu: str | None
) -> None:
    world = World(gpus(1), planners=(Passive(),), node=NODE)
    job = world.submit(GIB, gpus=int(gpu is not None), cpus=2, host_mib=GIB)
    assert refused(world, job, Placement((share(gpu, **caps),), SLICE)) == rule


def test_all_shares_of_a_task_book_the_same() -> None:
    world = server()
    job = world.submit(GIB, gpus=2)
    shares = (share("GPU-0", cpus=1.0), share("GPU-1", cpus=2.0))
    assert refused(world, job, Placement(shares, SLICE)) == "shares"


def caps(world: World, job: Job, cpus: float) -> SetShares:
    attempt = world.live(job)
    shares = tuple(replace(s, cpus=cpus) for s in attempt.placement.shares)
    return SetShares(job_id=job.id, shares=shares)


def test_caps_book_what_there_is_and_count_before_the_host_has_answered() -> None:
    world = World(gpus(2), planners=(Passive(),), node=NODE)
    one, two = (
        start(world, world.submit(GIB, cpus=1), Placement((share(f"GPU-{i}", cpus=1.0),), SLICE))
        for i in range(2)
    )
    world.obey = False
    assert propose(world, caps(world, one, 6.0)) is None
    assert booked(world)[0] == 7.0
    refusal = propose(world, caps(world, two, 3.0))
    assert refusal is not None and (refusal.rule, refusal.message) == (
        "cpus",
        "needs 3 CPUs, 2 free",
    )
    asked = next(a for a in reversed(world.actions) if isinstance(a, act.ApplyShares))
    world.step(ev.ActionFailed(at=world.now, action=asked, reason="no cgroup"))
    assert booked(world)[0] == 2.0
    world.obey = True
    assert propose(world, caps(world, two, 3.0)) is None
    assert propose(world, caps(world, two, 7.0)) is None, "its own CPUs are not in its way"
    assert booked(world)[0] == 8.0
    assert propose(world, caps(world, two, 2.0)) is None
    assert booked(world)[0] == 3.0
    world.end(two)
    assert booked(world)[0] == 1.0


def test_a_lowered_cap_keeps_what_the_job_asked_for() -> None:
    """Other jobs took the CPUs of a job whose cap a controller had lowered for a while."""
    world = World(gpus(2), planners=(Passive(),), node=NODE)
    job = start(world, world.submit(GIB, cpus=6), Placement((share(cpus=6.0),), SLICE))
    assert propose(world, caps(world, job, 1.0)) is None
    assert booked(world)[0] == 6.0
    world.restart()
    assert booked(world)[0] == 6.0
    other = world.submit(GIB, cpus=3)
    assert refused(world, other, Placement((share("GPU-1", cpus=3.0),), SLICE)) == "cpus"
    assert propose(world, caps(world, job, 6.0)) is None
    assert booked(world)[0] == 6.0


def test_a_server_that_cannot_set_shares_is_not_asked() -> None:
    """A share that failed was asked for, and logged, at every interval."""
    why = "no control group can be made"
    world = World(gpus(1), planners=(Passive(),), node=replace(NODE, shares_refused=why))
    job = start(world, world.submit(GIB, resizing=Resizing.NONE), on("GPU-0"))
    refusal = propose(world, caps(world, job, 1.0))
    assert (refusal.rule, refusal.message) == ("shares", why)
    assert not [a for a in world.actions if isinstance(a, act.ApplyShares)]
    world.see_nodes(NODE)
    assert propose(world, caps(world, job, 1.0)) is None


def test_the_cpus_of_tasks_are_divided_by_their_launcher_on_any_server() -> None:
    world = World(gpus(2), planners=(Passive(),), node=replace(NODE, shares_refused="no group"))
    job = start(world, world.submit(GIB, cpus=2), Placement((share(cpus=2.0),), SLICE))
    assert propose(world, caps(world, job, 1.0)) is None
    attempt = world.live(job)
    weighed = tuple(replace(share, cpu_weight=2.0) for share in attempt.placement.shares)
    refusal = propose(world, SetShares(job_id=job.id, shares=weighed))
    assert refusal.message == "no group", "it cannot weigh them"


@pytest.mark.parametrize("passing", [False, True])
def test_a_share_that_failed_for_good_is_not_asked_for_again(passing: bool) -> None:
    world = World(gpus(1), planners=(Passive(),), node=NODE)
    job = start(world, world.submit(GIB), on("GPU-0"))
    world.obey = False
    assert propose(world, caps(world, job, 1.0)) is None
    asked = world.actions[-1]
    failed = ev.ActionFailed(at=world.now, action=asked, reason="no group", transient=passing)
    world.step(failed)
    world.pass_time(100.0)
    refusal = propose(world, caps(world, job, 1.0))
    attempt = world.live(job)
    assert attempt is not None
    if passing:
        assert refusal is None and attempt.shares_refused is None
        return
    assert (refusal.rule, refusal.message) == ("shares", "no group")
    assert attempt.shares_refused == "no group", "planners see it"
    world.obey = True
    world.restart()
    assert propose(world, caps(world, job, 1.0)) is None, "the next daemon may have more rights"


def test_an_sm_fraction_that_was_refused_forbids_no_cpu_share() -> None:
    world = World(gpus(1), planners=(Passive(),), node=NODE)
    job = start(world, world.submit(GIB), on("GPU-0"))
    attempt = world.live(job)
    assert attempt is not None
    world.obey = False
    shares = tuple(replace(s, sm_fraction=0.5) for s in attempt.placement.shares)
    assert propose(world, SetShares(job_id=job.id, shares=shares)) is None
    world.step(ev.ActionFailed(at=world.now, action=world.actions[-1], reason="not now"))
    world.pass_time(100.0)
    assert propose(world, caps(world, job, 1.0)) is None


def test_a_cap_of_a_job_that_asked_for_no_cpus_books_none() -> None:
    world = World(gpus(2), planners=(Passive(),), node=NODE)
    one, two = (start(world, world.submit(GIB), on(f"GPU-{i}")) for i in range(2))
    assert propose(world, caps(world, one, 8.0)) is None
    assert propose(world, caps(world, two, 8.0)) is None
    assert booked(world)[0] == 0.0


def test_a_cap_may_change_no_memory() -> None:
    world = World(gpus(1), planners=(Passive(),), node=NODE)
    job = world.submit(GIB, host_mib=GIB)
    start(world, job, Placement((share(memory_mib=GIB),), SLICE))
    refusal = propose(world, SetShares(job_id=job.id, shares=(share(memory_mib=2 * GIB),)))
    assert refusal.rule == "shares"


WORKERS = (Role(count_max=4, needs=Needs(gpus=1, cpus=3)),)


def grown(count: int) -> Placement:
    return Placement(tuple(share(f"GPU-{i}", i, cpus=3.0) for i in range(count)), SLICE)


def test_a_resize_books_new_tasks_at_once_and_frees_old_ones_at_its_end() -> None:
    world = World(gpus(4), planners=(Passive(),), node=NODE)
    job = start(world, world.submit(GIB, roles=WORKERS), grown(1))
    refusal = propose(world, ResizeTo(job_id=job.id, placement=grown(3)))
    assert refusal.message == "needs 9 CPUs, 8 free"
    world.obey = False
    assert propose(world, ResizeTo(job_id=job.id, placement=grown(2))) is None
    assert booked(world)[0] == 6.0
    attempt = world.live(job)
    world.step(ev.Resized(at=world.now, job_id=job.id, serial=attempt.serial, target=grown(2)))
    assert booked(world)[0] == 6.0
    assert propose(world, ResizeTo(job_id=job.id, placement=grown(1))) is None
    assert booked(world)[0] == 6.0, "the task may still run"
    world.step(ev.Resized(at=world.now, job_id=job.id, serial=attempt.serial, target=grown(1)))
    assert booked(world)[0] == 3.0


def test_a_task_that_replaces_another_takes_its_cpus_but_books_memory_beside_it() -> None:
    world = World(gpus(4), planners=(Passive(),), node=NODE)
    roles = (Role(count_max=4, needs=Needs(gpus=1, cpus=3, memory_mib=22 * GIB)),)

    def tasks(*numbers: int, mib: int = 22 * GIB) -> Placement:
        return Placement(
            tuple(share(f"GPU-{i}", i, cpus=3.0, memory_mib=mib) for i in numbers), SLICE
        )

    job = start(world, world.submit(GIB, roles=roles), tasks(0, 1))
    refusal = propose(world, ResizeTo(job_id=job.id, placement=tasks(0, 2)))
    assert refusal.message.startswith("needs 66.0G of host memory, 64.0G")
    world.see_nodes(replace(NODE, memory_mib=66 * GIB))
    world.obey = False
    assert propose(world, ResizeTo(job_id=job.id, placement=tasks(0, 2))) is None
    assert booked(world) == (6.0, 66 * GIB), "the old task stops before the new one works"


def test_tasks_exchange_cpus_on_a_full_node() -> None:
    world = World(gpus(1), planners=(Passive(),), node=NODE)
    role = Role(count_min=2, count_max=2, needs=Needs(gpus=0, cpus=1, cpus_max=8))

    def tasks(first: float, second: float) -> tuple[Share, ...]:
        return share(None, 0, cpus=first), share(None, 1, cpus=second)

    job = start(world, world.submit(roles=(role,)), Placement(tasks(2.0, 6.0), SLICE))
    world.obey = False
    assert propose(world, SetShares(job_id=job.id, shares=tasks(6.0, 2.0))) is None
    assert booked(world)[0] == 8.0
    assert propose(world, SetShares(job_id=job.id, shares=tasks(6.0, 3.0))) is not None


def test_a_running_job_without_a_gpu_does_not_count_against_itself() -> None:
    settings = CoreSettings(gpuless_at_once=1)
    world = World(gpus(1), planners=(Passive(),), node=NODE, settings=settings)
    role = Role(count_max=2, needs=Needs(gpus=0, cpus=3))
    shares = tuple(share(None, task, cpus=3.0) for task in range(2))
    job = start(world, world.submit(roles=(role,)), Placement(shares[:1], SLICE))
    assert propose(world, ResizeTo(job_id=job.id, placement=Placement(shares, SLICE))) is None
    assert booked(world)[0] == 6.0


def test_a_job_may_shrink_on_a_node_that_shrank() -> None:
    world = World(gpus(4), planners=(Passive(),), node=NODE)
    job = start(world, world.submit(GIB, roles=WORKERS), grown(2))
    world.see_nodes(Node(LOCAL_NODE, cpus=3.0))
    assert propose(world, ResizeTo(job_id=job.id, placement=grown(1))) is None
    assert booked(world)[0] == 3.0


@pytest.mark.parametrize("works", [True, False])
def test_a_migration_books_its_target_until_it_has_arrived(works: bool) -> None:
    world = World(gpus(2), planners=(Passive(),), node=NODE)
    here = Placement((share("GPU-0", cpus=1.0),), SLICE)
    job = start(world, world.submit(GIB, cpus=1, checkpoint=SAVES), here)
    world.obey = False
    target = Placement((share("GPU-1", cpus=5.0, memory_mib=GIB),), SLICE)
    assert propose(world, Migrate(job_id=job.id, placement=target)) is None
    assert booked(world) == (5.0, GIB)
    world.restart()
    assert booked(world) == (5.0, GIB)
    asked = next(a for a in world.actions if isinstance(a, act.TakeCheckpoint))
    if works:
        world.obey = True
        world.step(ev.CheckpointTaken(at=world.now, job_id=job.id, serial=asked.serial))
        assert world.where(job) == ("GPU-1",)
    else:
        world.step(ev.ActionFailed(at=world.now, action=asked, reason="no"))
    assert booked(world) == ((5.0, GIB) if works else (1.0, 0))


def test_a_migration_on_one_node_keeps_its_cpus() -> None:
    world = World(gpus(2), planners=(Passive(),), node=NODE)
    job = world.submit(GIB, cpus=8, checkpoint=SAVES)
    start(world, job, Placement((share("GPU-0", cpus=8.0),), SLICE))
    target = Placement((share("GPU-1", cpus=8.0),), SLICE)
    assert propose(world, Migrate(job_id=job.id, placement=target)) is None
    assert world.where(job) == ("GPU-1",)
    assert booked(world)[0] == 8.0
