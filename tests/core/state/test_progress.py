"""What a job has reported, and what it has saved, across the ends of its attempts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import Exit, Job, OutOfMemory, Progress
from radrm.core.words import JobState
from radrm.structs import replace
from tests.world import GIB, World, gpus

OOM = OutOfMemory("test", 100)
ENDS: list[tuple[dict[str, Any], dict[str, Any], JobState]] = [
    ({}, {"exits": (Exit(0),)}, JobState.COMPLETED),
    ({}, {"exits": (Exit(3),)}, JobState.FAILED),
    ({}, {"lost": "gone"}, JobState.FAILED),
    ({}, {"exits": (), "failure": "host memory"}, JobState.FAILED),
    ({"retries": 1}, {"exits": (Exit(3),)}, JobState.PENDING),
    ({"requeue": True}, {"lost": "gone"}, JobState.PENDING),
    ({}, {"exits": (Exit(1),), "oom": OOM}, JobState.RECOVERING),
]


def saves(world: World, job: Job, **progress: float) -> Progress:
    saved = Progress(at=world.now, **progress)
    attempt = world.live(job)
    world.step(
        ev.CheckpointTaken(at=world.now, job_id=job.id, serial=attempt.serial, progress=saved)
    )
    return saved


def drain(world: World) -> None:
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="test"))


def running(world: World, **spec: Any) -> Job:
    job = world.submit(GIB, **spec)
    world.pass_time(1.0)
    return world.jobs[job.id]


@pytest.mark.parametrize("saving", [False, True])
@pytest.mark.parametrize("spec, how, state", ENDS)
def test_what_was_not_saved_is_gone_after_any_end_but_a_completion(
    spec: dict[str, Any], how: dict[str, Any], state: JobState, saving: bool
) -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB, **spec)
    serial = world.attempts[job.id, 1].serial
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=serial))
    world.report(job, work_done=0.6)
    saved = saves(world, job, work_done=0.6) if saving else None
    world.report(job, work_done=0.95)
    last = world.jobs[job.id].progress
    drain(world)  # or it would start again at once
    world.step(ev.AttemptEnded(at=world.now, job_id=job.id, serial=serial, **how))
    ended = world.jobs[job.id]
    assert (ended.state, ended.saved) == (state, saved)
    assert ended.progress == (last if state is JobState.COMPLETED else saved)


@pytest.mark.parametrize("reason", ["cancelled", "timeout"])
def test_a_stopped_job_has_what_it_had_saved(reason: str) -> None:
    world = World(gpus(1))
    job = running(world, time_limit_s=100.0)
    saved = saves(world, job, work_done=0.2)
    world.report(job, work_done=0.5)
    if reason == "cancelled":
        world.cancel(job)
    else:
        world.pass_time(100.0)
    assert world.state(job).value == reason.upper()
    assert world.jobs[job.id].progress == saved


def test_a_completed_job_that_is_requeued_begins_with_what_it_had_saved() -> None:
    world = World(gpus(1))
    job = running(world)
    world.report(job, work_done=1.0)
    ended = world.end(job)
    assert ended.progress.work_done == 1.0
    drain(world)
    assert world.requeue(job).progress is None


def test_a_job_whose_launch_was_void_has_what_it_had_saved() -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB)
    world.report(job, work_done=0.1)
    serial = world.attempts[job.id, 1].serial
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, serial=serial))
    assert world.jobs[job.id].progress is None


def test_a_report_of_an_ended_attempt_changes_nothing() -> None:
    world = World(gpus(1))
    job = running(world, retries=1)
    world.end(job, code=3)
    world.step(
        ev.ProgressReported(
            at=world.now, job_id=job.id, serial=1, progress=Progress(at=world.now, work_done=0.9)
        )
    )
    assert world.jobs[job.id].progress is None


@given(
    st.lists(
        st.sampled_from(["report", "save", "fail", "lose", "cancel", "restart", "pass"]),
        max_size=14,
    )
)
def test_a_job_without_an_attempt_never_has_more_progress_than_it_saved(what: list[str]) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, retries=9, requeue=True)
    done = 0.0
    for each in what:
        alive = world.live(job) is not None
        if each == "restart":
            world.restart()
        elif each == "pass" or not alive:
            world.pass_time(60.0)
        elif each == "report":
            done += 0.01
            world.report(job, work_done=done)
        elif each == "save":
            saves(world, job, work_done=done)
        elif each == "cancel":
            world.cancel(job)
        else:
            lost = "gone" if each == "lose" else None
            world.end(job, code=3, lost=lost)
        now = world.jobs[job.id]
        if not now.state.live:
            assert now.progress == now.saved
        if now.state.final:
            break


def test_an_attempt_begins_with_what_was_saved_then() -> None:
    world = World(gpus(1))
    job = running(world, requeue=True)

    def again() -> Progress | None:
        world.end(job, lost="gone")
        world.pass_time(1000.0)
        return world.live(job).began

    first = world.attempts[job.id, 1]
    assert first.began is None and first.work_begun == 0.0
    saved = saves(world, job, work_done=0.4)
    assert world.attempts[job.id, 1].began is None, "a save does not change it"
    assert again() == saved
    world.pass_time(10.0)
    attempt = world.live(job)
    world.step(ev.CheckpointTaken(at=world.now, job_id=job.id, serial=attempt.serial))
    assert world.jobs[job.id].saved == saved
    assert again() == Progress(at=world.jobs[job.id].saved_at or world.now), "nobody said how far"
    old = replace(attempt, began=None)  # as of a forecast
    assert old.work_begun is None and replace(old, number=1).work_begun == 0.0
