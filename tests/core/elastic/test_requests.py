"""A user gives a running job another size; the policy of the planner that starts jobs chooses."""

from __future__ import annotations

from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Job, Needs, Node, OutOfMemory, Role
from radrm.core.words import Collocation, JobState, Resizing
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.core.elastic.workers import asked, live, resized, servers_and_workers
from tests.core.placements import CORE, SAVES
from tests.world import GIB, World, gpus

SPAN = (Role(count_max=4),)


def running(count: int = 4, **spec: Any) -> tuple[World, Job]:
    settings = spec.pop("settings", CORE)
    world = World(gpus(count), settings=settings, policy=spec.pop("policy", None), node=NODE)
    job = world.submit(8 * GIB, **{"smact": 0.1, "roles": SPAN, "checkpoint": SAVES, **spec})
    assert world.state(job) is JobState.RUNNING, world.why(job)
    world.obey = False
    return world, job


NODE = Node(cpus=16.0, memory_mib=64 * GIB)


def ask(world: World, job: Job | int = 1, **counts: int) -> str | None:
    job_id = job if isinstance(job, int) else job.id
    event = ev.ResizeRequested(at=world.now, job_id=job_id, by="ada", counts=tuple(counts.items()))
    refusal = world.scheduler.refuse_request(event)
    before = len(world.actions)
    world.step(event)
    did = [a for a in world.actions[before:] if isinstance(a, act.Resize | act.TakeCheckpoint)]
    assert bool(did) is (refusal is None), refusal
    return refusal.message if refusal is not None else None


def test_a_user_grows_and_shrinks_a_job() -> None:
    world, job = running()
    assert ask(world, main=3) is None
    assert str(live(world).requested) == "ada asked for a resize"
    resized(world, asked(world))
    assert len(set(world.where(job))) == 3
    first = world.where(job)[0]
    assert ask(world, main=1) is None
    resized(world, asked(world))
    assert world.where(job) == (first,)


def test_a_job_that_is_restarted_saves_first() -> None:
    world, _ = running(resizing=Resizing.RESTART)
    assert ask(world, main=2) is None
    assert isinstance(world.actions[-1], act.TakeCheckpoint)
    assert len(world.jobs[1].target.devices) == 2


def test_what_is_impossible_is_refused_with_the_reason() -> None:
    world, _ = running(count=2)
    assert ask(world, main=5) == "role main has 1 to 4 tasks"
    assert ask(world, main=1) == "it has this size now"
    assert ask(world, ps=1) == "the job has no role ps; it has main"
    assert ask(world, 7, main=1) == "job 7 does not exist or has ended"
    assert ask(world, main=3) == "needs 2 more GPUs, 1 can take it now"
    assert ask(world, main=2) is None
    assert ask(world, main=1) == "a migration or resize of it is under way"
    world.cancel(1)
    assert ask(world, main=1) == "job 1 is not running"
    world, _ = running(resizing=Resizing.NONE)
    assert str(ask(world, main=2)).startswith("its size cannot change while it runs; submit it")
    waiting = world.submit(50 * GIB, gpus=4)
    assert ask(world, waiting, main=1) == f"job {waiting.id} is not running"


def test_a_full_server_is_refused_with_both_numbers() -> None:
    world, _ = running(count=2)
    world.obey = True
    world.submit(38 * GIB, smact=0.1)
    world.obey = False
    assert ask(world, main=2) == "needs 10.0G (margin included), 2.0G free"


def test_nobody_grows_past_a_waiting_job() -> None:
    """Else a job that starts small and grows by hand gets GPUs before all that wait for them."""
    world, _ = running()
    world.obey = True
    waiting = world.submit(39 * GIB, gpus=4, name="large")
    assert world.state(waiting) is JobState.PENDING
    world.obey = False
    why = (
        f"job {waiting.id} (large) waits, and no job grows meanwhile; try again when it has started"
    )
    assert ask(world, main=3) == why
    world.cancel(waiting)
    assert ask(world, main=3) is None
    resized(world, asked(world))
    world.submit(39 * GIB, gpus=4)
    assert ask(world, main=2) is None, "it gives back"


def test_steps_of_a_range_are_kept() -> None:
    world, _ = running(roles=(Role(count_min=1, count_max=3, step=2),))
    assert ask(world, main=2) == "role main has 1 to 3 tasks, in steps of 2"
    assert ask(world, main=3) is None


def test_new_tasks_share_their_devices_as_the_others_do() -> None:
    """An idle MPS device is no place for a task of a job that is time-sliced."""
    world = World((*gpus(1), *gpus(3, mps=True)[1:]), settings=CORE, node=NODE)
    job = world.submit(8 * GIB, smact=0.1, roles=SPAN, prefer_gpus=("0",))
    assert world.where(job) == ("GPU-0",)
    world.obey = False
    assert ask(world, main=2) is None
    target = asked(world).target
    assert target.collocation is live(world).placement.collocation
    assert target.devices[1] in ("GPU-1", "GPU-2")


def test_a_client_of_mps_grows_onto_mps_devices_only() -> None:
    first, second, third = gpus(3, mps=True)
    world = World((first, replace(second, mps=False), third), settings=CORE, node=NODE)
    job = world.submit(8 * GIB, smact=0.1, roles=SPAN, prefer_gpus=("0", "1"))
    assert world.where(job) == ("GPU-0",)
    assert live(world).placement.collocation is Collocation.MPS
    world.obey = False
    assert ask(world, main=2) is None
    assert asked(world).target.devices == ("GPU-0", "GPU-2")


def test_a_job_on_whole_devices_gets_whole_devices() -> None:
    world, _ = running(policy=Exclusive())
    world.obey = True
    other = world.submit(GIB, smact=0.1)
    world.obey = False
    (taken,) = world.where(other)
    assert ask(world, main=3) is None
    assert taken not in asked(world).target.devices
    assert ask(world, main=4) is not None


def test_new_tasks_have_the_fewest_cpus_of_their_role() -> None:
    roles = (Role(count_max=4, needs=Needs(cpus=4.0, cpus_max=16.0)),)
    world, _ = running(roles=roles)
    assert ask(world, main=4) is None
    assert [share.cpus for share in asked(world).target.shares] == [4.0] * 4
    world.step(ev.ActionFailed(at=world.now, action=asked(world), reason="no"))
    world.see_nodes(Node(cpus=15.0))
    assert ask(world, main=4) == "needs 16 CPUs, 15 free"


def test_roles_without_gpus_grow_apart() -> None:
    world, _ = running(roles=servers_and_workers())
    assert ask(world, worker=4) is None
    resized(world, asked(world))
    assert live(world).placement.tasks() == {"ps": 1, "worker": 4}
    assert ask(world, ps=2, worker=3) is None
    resized(world, asked(world))
    assert live(world).placement.tasks() == {"ps": 2, "worker": 3}
    assert {share.node for share in live(world).placement.shares} == {"local"}


def test_the_recovery_policy_places_new_tasks_of_a_job_that_recovers() -> None:
    world, job = running(count=3)
    world.obey = True
    world.end(job, 1, oom=OutOfMemory("test", 500))
    world.pass_time(1.0)
    assert world.jobs[1].recovers and world.state(1) is JobState.RUNNING
    world.obey = False
    assert ask(world, main=2) is None
    reserved = {share.reserved_mib for share in asked(world).target.shares}
    assert reserved == {40 * GIB}, "idle devices, for the job has died of too little memory"
