"""The planner `andreas` through `step`: due jobs displace others, and none that cannot save."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.thinking import think
from radrm.core.records import (
    ArrayElement,
    Checkpoint,
    Device,
    Job,
    JobSpec,
    Needs,
    Node,
    OutOfMemory,
    Profiled,
    Role,
)
from radrm.core.words import CheckpointKind, Collocation, DeviceKind, JobState, Outcome
from radrm.published.andreas import Andreas
from radrm.structs import replace
from tests.contract.broken import Watched
from tests.world import GIB, World, gpus

CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL)
ELASTIC = (Role(count_min=1, count_max=2),)
FEW = 60


def due_in(world: World, seconds: float) -> float:
    return world.now.wall_s + seconds


def world_of(devices: Sequence[Device] = gpus(1), **rule: Any) -> World:
    return Watched(devices, planners=(Andreas(max_iterations=FEW, **rule),))


def pass_seconds(world: World, seconds: int = 15) -> None:
    for _ in range(seconds):
        world.pass_time(1.0)


def mixed(v100: int = 2, t4: int = 1) -> tuple[Device, ...]:
    names = ["Tesla V100"] * v100 + ["Tesla T4"] * t4
    found = gpus(v100 + t4, 16 * GIB)
    return tuple(replace(d, name=name) for d, name in zip(found, names, strict=True))


def submit(world: World, profile: dict[tuple[str, int], float], **spec: Any) -> Job:
    """A job whose run times are known, by kind and number of GPUs."""
    known = tuple(Profiled(f"Tesla {kind}", n, s) for (kind, n), s in profile.items())
    spec = {"name": "known", "user": "ann", "uid": 1000, "checkpoint": CAN_SAVE, **spec}
    job = Job(world.next_id, f"T{world.next_id}", JobSpec(**spec), world.now, profile=known)
    world.next_id += 1
    world.step(ev.JobSubmitted(at=world.now, job=job))
    pass_seconds(world, 3)
    return world.jobs[job.id]


# ------------------------------------------------------------------ who gives way


def test_one_that_can_save_gives_way_to_one_that_is_due() -> None:
    world = world_of()
    patient = world.submit(8 * GIB, checkpoint=CAN_SAVE, duration_s=5000)
    pass_seconds(world)
    world.report(patient, work_done=0.02)
    urgent = world.submit(8 * GIB, due_s=due_in(world, 700), duration_s=600)
    pass_seconds(world)
    assert world.state(urgent) is JobState.RUNNING
    waiting = world.jobs[patient.id]
    assert waiting.state is JobState.PENDING
    assert waiting.saved and waiting.saved.work_done == 0.02
    assert world.attempts[patient.id, 1].outcome is Outcome.PREEMPTED
    assert world.why(patient)[0] == "plan"
    world.end(urgent)
    pass_seconds(world)
    assert (world.state(patient), world.jobs[patient.id].attempts) == (JobState.RUNNING, 2)


def test_one_that_has_only_requeue_runs_on() -> None:
    world = world_of()
    stubborn = world.submit(8 * GIB, requeue=True, duration_s=5000)
    pass_seconds(world)
    urgent = world.submit(8 * GIB, due_s=due_in(world, 700), duration_s=600)
    pass_seconds(world, 30)
    assert (world.state(stubborn), world.jobs[stubborn.id].attempts) == (JobState.RUNNING, 1)
    assert world.why(urgent) == ["plan", "taken", "count"]


def test_a_job_that_has_just_started_is_stopped_only_later() -> None:
    """The core would count it as a setback, and pause its job."""
    world = world_of()
    patient = world.submit(8 * GIB, checkpoint=CAN_SAVE, duration_s=5000)
    pass_seconds(world, 3)
    world.submit(8 * GIB, due_s=due_in(world, 700), duration_s=600)
    pass_seconds(world, 5)
    assert world.state(patient) is JobState.RUNNING
    pass_seconds(world)
    assert world.state(patient) is JobState.PENDING and not world.jobs[patient.id].setbacks


def test_the_more_pressing_of_two_is_served_first() -> None:
    world = world_of()
    first = world.submit(8 * GIB, duration_s=100)
    pass_seconds(world, 3)
    later = world.submit(8 * GIB, due_s=due_in(world, 9000), duration_s=600)
    sooner = world.submit(8 * GIB, due_s=due_in(world, 800), duration_s=600)
    world.end(first)
    pass_seconds(world, 3)
    assert world.state(sooner) is JobState.RUNNING
    assert world.state(later) is JobState.PENDING
    assert world.edit(later, due_s=due_in(world, -1000), weight=9.0, priority=1) is None
    pass_seconds(world, 5)
    assert "postponed" in world.scheduler.why_waiting(later.id, world.now)[0].message


def test_priority_comes_before_pressure() -> None:
    world = world_of()
    patient = world.submit(8 * GIB, checkpoint=CAN_SAVE, due_s=due_in(world, -500), duration_s=900)
    pass_seconds(world)
    first = world.submit(8 * GIB, priority=1, duration_s=900)
    pass_seconds(world)
    assert (world.state(patient), world.state(first)) == (JobState.PENDING, JobState.RUNNING)


def test_a_due_time_edited_leads_to_another_plan() -> None:
    world = world_of()
    one = world.submit(8 * GIB, checkpoint=CAN_SAVE, due_s=due_in(world, 2000), duration_s=900)
    pass_seconds(world)
    other = world.submit(
        8 * GIB, checkpoint=CAN_SAVE, due_s=due_in(world, 90_000), duration_s=900, weight=3.0
    )
    pass_seconds(world)
    assert world.state(other) is JobState.PENDING
    assert world.edit(other, due_s=due_in(world, 100)) is None
    pass_seconds(world)
    assert (world.state(one), world.state(other)) == (JobState.PENDING, JobState.RUNNING)


# ------------------------------------------------------------------ configurations


TIMES = {("V100", 1): 1000.0, ("V100", 2): 600.0, ("T4", 1): 2000.0}


@pytest.mark.parametrize(
    ("due_s", "kind", "count"),
    [(700, "Tesla V100", 2), (1500, "Tesla V100", 1), (100, "Tesla V100", 2)],
)
def test_the_due_time_decides_the_number_of_gpus(due_s: float, kind: str, count: int) -> None:
    """300 W for each GPU: one V100 costs less than two, and than the slow T4."""
    world = world_of(mixed(), method="greedy")
    job = submit(world, TIMES, roles=ELASTIC, due_s=due_in(world, due_s))
    names = {d.uuid: d.name for d in world.devices}
    assert [names[uuid] for uuid in world.where(job)] == [kind] * count


def test_lists_of_gpus_come_before_the_price() -> None:
    world = world_of(mixed(), method="greedy")
    avoids = submit(world, TIMES, avoid_gpus=("v100",))
    prefers = submit(world, TIMES, prefer_gpus=("1",))
    assert world.where(avoids) == ("GPU-2",)
    assert world.where(prefers) == ("GPU-1",)
    only = submit(world, TIMES, gpu_types=("t4",), checkpoint=Checkpoint())
    assert world.state(only) is JobState.PENDING
    pass_seconds(world, 40)
    assert world.where(only) == () or world.where(only) == ("GPU-2",)


def test_a_job_moves_to_a_faster_gpu_that_is_free() -> None:
    world = world_of(mixed(1, 1), method="greedy")
    holder = submit(world, {("V100", 1): 500.0}, checkpoint=Checkpoint())
    job = submit(world, {("V100", 1): 1000.0, ("T4", 1): 9000.0}, due_s=due_in(world, 2000))
    assert world.where(job) == ("GPU-1",)
    world.end(holder)
    pass_seconds(world, 30)
    assert world.where(job) == ("GPU-0",)
    assert world.jobs[job.id].attempts == 2


def test_what_needs_more_memory_than_a_kind_has_does_not_go_there() -> None:
    large = replace(gpus(2)[1], name="A100-80GB", total_mib=80 * GIB)
    world = world_of((gpus(1)[0], large), method="greedy")
    job = world.submit(50 * GIB, source="declared")
    pass_seconds(world, 3)
    assert world.where(job) == ("GPU-1",)


def test_a_mig_instance_takes_one_job() -> None:
    part = replace(gpus(1)[0], kind=DeviceKind.MIG, profile="1g.5gb", total_mib=5 * GIB)
    world = world_of((part,))
    jobs = [world.submit(GIB) for _ in range(2)]
    pass_seconds(world, 3)
    assert world.live(jobs[0]).placement.collocation is Collocation.MIG
    assert world.state(jobs[1]) is JobState.PENDING


# ------------------------------------------------------------------ every job starts


def test_jobs_without_gpus_start_in_their_order() -> None:
    world = world_of()
    world.see_nodes(Node(cpus=8))
    jobs = [world.submit(gpus=0, cpus=cpus) for cpus in (6, 6, 1)]
    pass_seconds(world, 3)
    states = [world.state(job) for job in jobs]
    assert states == [JobState.RUNNING, JobState.PENDING, JobState.PENDING]
    world.end(jobs[0])
    pass_seconds(world, 3)
    assert [world.state(job) for job in jobs[1:]] == [JobState.RUNNING, JobState.RUNNING]


def test_held_jobs_and_array_limits() -> None:
    world = world_of(gpus(3))
    held = world.submit(GIB)
    world.hold(held)
    elements = [world.submit(GIB, array=ArrayElement(2, i, 1)) for i in range(2)]
    pass_seconds(world, 3)
    assert [world.state(j) for j in (held, *elements)] == [
        *(JobState.PENDING, JobState.RUNNING, JobState.PENDING)
    ]
    world.hold(held, False)
    world.end(elements[0])
    pass_seconds(world, 3)
    assert [world.state(j) for j in (held, elements[1])] == [JobState.RUNNING, JobState.RUNNING]


def test_a_job_without_a_due_time_does_not_wait_for_ever() -> None:
    """Weeks of jobs that are due: after `default_due_s` it goes before the new ones."""
    world = world_of(default_due_s=3600.0)
    patient = world.submit(8 * GIB, duration_s=600)
    pass_seconds(world, 3)
    world.end(patient)
    first = world.submit(8 * GIB, duration_s=600, due_s=due_in(world, 600))
    pass_seconds(world, 3)
    waits = world.submit(8 * GIB, duration_s=600)
    running = first
    for _ in range(20):
        following = world.submit(8 * GIB, duration_s=600, due_s=due_in(world, 900))
        world.pass_time(600.0)
        world.end(running)
        pass_seconds(world, 3)
        if world.state(waits) is JobState.RUNNING:
            return
        live = [job for job in world.jobs.values() if job.state is JobState.RUNNING]
        running = live[0] if live else following
    raise AssertionError("it has waited for more than three hours")


def test_a_drained_gpu_gets_no_job_and_a_new_one_does() -> None:
    world = world_of(gpus(2))
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="test"))
    jobs = [world.submit(GIB) for _ in range(2)]
    pass_seconds(world, 3)
    assert [world.where(job) for job in jobs] == [("GPU-1",), ()]
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason=None))
    pass_seconds(world, 3)
    assert world.where(jobs[1]) == ("GPU-0",)


def test_an_unmanaged_process_keeps_jobs_away_until_it_is_gone() -> None:
    world = world_of(gpus(1), period_s=30.0)
    world.unmanaged["GPU-0"] = 5 * GIB
    world.read()
    job = world.submit(GIB)
    pass_seconds(world, 10)
    assert world.state(job) is JobState.PENDING and "not idle" in world.why(job)
    world.unmanaged.clear()
    pass_seconds(world, 40)
    assert world.state(job) is JobState.RUNNING


def test_a_start_that_the_core_refuses_does_not_block_the_others() -> None:
    """It books more CPUs than are free, for as long as another job runs."""
    world = world_of(gpus(2), period_s=60.0)
    world.see_nodes(Node(cpus=8))
    holder = world.submit(GIB, cpus=6)
    pass_seconds(world, 3)
    blocked = world.submit(GIB, cpus=6, due_s=due_in(world, 10))
    other = world.submit(GIB, cpus=2)
    pass_seconds(world, 45)
    assert world.state(blocked) is JobState.PENDING
    assert world.state(other) is JobState.RUNNING, "the GPU is given to another job"
    said = world.scheduler.why_waiting(blocked.id, world.now)
    assert "it is planned again in" in said[0].message
    world.end(holder)
    pass_seconds(world, 90)
    assert world.state(blocked) is JobState.RUNNING


def test_what_a_job_waits_for_is_not_taken_by_smaller_ones() -> None:
    world = world_of(gpus(2))
    world.see_nodes(Node(cpus=8))
    world.submit(GIB, cpus=6)
    pass_seconds(world, 3)
    world.submit(GIB, cpus=6)
    small = world.submit(gpus=0, cpus=2)
    pass_seconds(world, 10)
    assert world.state(small) is JobState.PENDING
    pass_seconds(world, 40)
    assert world.state(small) is JobState.RUNNING, "the large one is left out for a while"


def test_no_job_moves_between_servers_that_are_alike() -> None:
    """The second job is the more pressing one, so each plan names it for the first server."""
    devices = tuple(replace(d, node=node) for d, node in zip(gpus(2), "ab", strict=True))
    world = world_of(devices, period_s=20.0)
    jobs = [
        world.submit(GIB, checkpoint=CAN_SAVE, due_s=due_in(world, due_s), duration_s=600)
        for due_s in (9000, 700)
        if pass_seconds(world, 3) is None
    ]
    pass_seconds(world, 70)
    assert world.rule_states["planner", "andreas"].state["calls"] >= 4
    assert [world.jobs[job.id].attempts for job in jobs] == [1, 1]


# ------------------------------------------------------------------ plans that do not work


class Mute(Watched):
    """Its jobs never answer a request to save."""

    def _do(self, action: act.Action) -> None:
        if not isinstance(action, act.TakeCheckpoint):
            super()._do(action)


def test_a_job_that_does_not_save_is_left_alone_in_the_end() -> None:
    world = Mute(gpus(1), planners=(Andreas(max_iterations=FEW),))
    mute = world.submit(8 * GIB, checkpoint=CAN_SAVE, duration_s=50_000)
    pass_seconds(world)
    urgent = world.submit(8 * GIB, due_s=due_in(world, 100), duration_s=600)
    for _ in range(40):
        pass_seconds(world, 1)
        world.pass_time(60.0)
    asked = [a for a in world.actions if isinstance(a, act.TakeCheckpoint)]
    assert len(asked) == 2
    assert (world.state(mute), world.state(urgent)) == (JobState.RUNNING, JobState.PENDING)
    world.end(mute)
    pass_seconds(world)
    assert world.state(urgent) is JobState.RUNNING


def test_a_plan_survives_a_restart_and_the_same_state_gives_the_same_plan() -> None:
    world = world_of(gpus(2))
    for due_s in (9000, 700, 100):
        world.submit(8 * GIB, checkpoint=CAN_SAVE, due_s=due_in(world, due_s), duration_s=600)
    pass_seconds(world, 12)
    snapshot, rule = world.scheduler.snapshot, Andreas(max_iterations=FEW)
    state = world.rule_states["planner", "andreas"].state
    assert think(rule, snapshot, state) == think(rule, snapshot, state)
    calls, places = state["calls"], {job_id: world.where(job_id) for job_id in (1, 2, 3)}
    world.restart()
    pass_seconds(world, 3)
    assert world.rule_states["planner", "andreas"].state["calls"] <= calls + 1
    assert {job_id: world.where(job_id) for job_id in (1, 2, 3)} == places
    fresh = think(dataclasses.replace(rule, seed=7), snapshot, state)
    assert fresh.state["seed"] == 7 and fresh.state["calls"] == 1


def test_a_job_that_died_of_out_of_memory_goes_first() -> None:
    world = world_of()
    job = world.submit(GIB, due_s=due_in(world, 90_000))
    pass_seconds(world, 3)
    world.submit(GIB, due_s=due_in(world, 100))
    world.end(job, 1, oom=OutOfMemory("test", 512))
    pass_seconds(world, 30)
    assert world.jobs[job.id].recovers and world.state(job) is JobState.RUNNING


def test_one_role_with_two_gpus_for_a_task_gets_two() -> None:
    world = world_of(gpus(2))
    job = world.submit(GIB, roles=(Role(needs=Needs(gpus=2)), Role("ps", needs=Needs(gpus=0))))
    pass_seconds(world, 3)
    assert set(world.where(job)) == {"GPU-0", "GPU-1"}
