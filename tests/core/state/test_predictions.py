"""A waiting job is predicted again when runs of the same thing have ended."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.records import DECLARED, MEASURED, Estimate, Job, Profiled
from radrm.core.words import JobState, Quantity
from radrm.orders import Shortest
from radrm.policies.exclusive import Exclusive
from radrm.policies.packing import Packing
from radrm.structs import replace
from tests.world import GIB, World, gpus

OLD = Estimate(Quantity.SMACT, 0.7, 0.9, "history, same name")
NEW = (
    Estimate(Quantity.SMACT, 0.4, 0.5, "history", seconds=0.1),
    Estimate(Quantity.DURATION, 600.0, 700.0, "history"),
    Estimate(Quantity.MEMORY, 99.0, 99.0, "history"),
)


def waiting(*estimates: Estimate) -> tuple[World, Job]:
    """A job with these estimates behind one that runs."""
    world = World(gpus(1), policy=Exclusive(), order=Shortest())
    world.submit(GIB)
    job = world.submit(GIB, estimating=True)
    world.step(ev.EstimateReady(at=world.now, job_id=job.id, estimates=estimates))
    return world, world.jobs[job.id]


def learned(world: World, *jobs: Job, estimates: tuple[Estimate, ...] = NEW) -> None:
    found = tuple((job.id, estimates) for job in jobs)
    world.step(ev.PredictionsReady(at=world.now, estimates=found))


MEMORY = Estimate(Quantity.MEMORY, 2048.0, 4096.0, "horus")
DECLARED_OLD, MEASURED_OLD = (replace(OLD, source=source) for source in (DECLARED, MEASURED))


@pytest.mark.parametrize(
    ("before", "learns", "after"),
    [
        pytest.param((MEMORY, OLD), NEW, (MEMORY, *NEW[:2]), id="memory stays, others are new"),
        pytest.param(
            (DECLARED_OLD, OLD), NEW, (DECLARED_OLD, OLD, NEW[1]), id="what the user said stays"
        ),
        pytest.param(
            (MEASURED_OLD, OLD), NEW, (MEASURED_OLD, OLD, NEW[1]), id="what it showed stays"
        ),
        pytest.param((OLD,), (), (OLD,), id="a history that says nothing takes nothing"),
    ],
)
def test_what_becomes_of_predictions(
    before: tuple[Estimate, ...], learns: tuple[Estimate, ...], after: tuple[Estimate, ...]
) -> None:
    world, job = waiting(*before)
    learned(world, job, estimates=learns)
    assert world.jobs[job.id].estimates == after


def test_the_same_answer_is_saved_once() -> None:
    world, job = waiting(OLD)
    learned(world, job)
    learned(world, job, estimates=(replace(NEW[0], seconds=0.2), NEW[1]))
    assert world.decisions[-1].changed == ()


def test_only_jobs_that_wait_are_predicted_again() -> None:
    world, job = waiting(OLD)
    asked = world.submit(GIB, estimating=True)
    running = next(job for job in world.jobs.values() if job.state is JobState.RUNNING)
    ended = world.cancel(world.submit(GIB))
    learned(world, running, asked, ended, replace(job, id=99))
    assert world.decisions[-1].changed == ()


def test_the_order_follows() -> None:
    world, first = waiting(Estimate(Quantity.DURATION, 1000.0, 1000.0, "history"))
    second = world.submit(GIB, duration_s=2000.0)
    line = world.scheduler.state.lines.gpu
    assert list(line) == [first.id, second.id]
    learned(world, second)
    assert list(line) == [second.id, first.id]
    assert world.scheduler.snapshot.first(1) == (world.jobs[second.id],)
    world.restart()
    assert list(world.scheduler.state.lines.gpu) == [second.id, first.id]


def test_a_job_that_fits_now_starts_at_once() -> None:
    world = World(gpus(1, mps=True), policy=Packing(max_demand=1.0))
    world.submit(GIB, smact=0.3)
    world.pass_time(60.0)
    job = world.submit(GIB, smact=0.9)
    assert "demand" in world.why(job)
    learned(world, job, estimates=(replace(NEW[0], value=0.3, upper=0.4),))
    assert world.state(job) is JobState.RUNNING


PROFILE = (Profiled("A100-40GB", 1, 600.0),)


def test_a_waiting_job_gets_the_profile_that_was_learned_meanwhile() -> None:
    world, job = waiting(OLD)
    running = next(i for i, each in world.jobs.items() if each.state is JobState.RUNNING)
    profiles = ((job.id, PROFILE), (running, PROFILE), (99, PROFILE))
    world.step(ev.PredictionsReady(at=world.now, estimates=(), profiles=profiles))
    assert world.jobs[job.id].profile == PROFILE and world.jobs[running].profile == ()
    assert world.jobs[job.id].estimates == (OLD,)
    world.restart()
    assert world.scheduler.snapshot.job(job.id).profile == PROFILE


def test_an_edit_of_what_runs_replaces_the_profile() -> None:
    world, job = waiting(OLD)
    world.step(ev.PredictionsReady(at=world.now, estimates=(), profiles=((job.id, PROFILE),)))
    for estimates, left in ((None, PROFILE), ((OLD,), ())):
        world.step(
            ev.EditRequested(
                at=world.now, job_id=job.id, spec=job.spec, estimates=estimates, after=()
            )
        )
        assert world.jobs[job.id].profile == left


def test_an_attempt_keeps_its_first_and_its_last_report() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    for step in (3.0, 5.0, 8.0):
        world.pass_time(10.0)
        world.report(job, step=step)
    world.restart()
    world.report(job, step=9.0)
    world.end(job)
    assert [each.step for each in world.attempts[job.id, 1].reported] == [3.0, 9.0]
    silent = world.submit(GIB)
    world.end(silent)
    assert world.attempts[silent.id, 1].reported == ()
