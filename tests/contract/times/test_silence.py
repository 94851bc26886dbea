"""`--silent-limit`: a job whose log and progress stand still is warned, then stopped."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Warned
from radrm.core.records import EarlySignal, Job
from radrm.core.words import JobState, Outcome
from tests.world import GIB, World, gpus

LIMIT_S = 100.0


def say(world: World, job: Job, silent_s: float) -> None:
    """The host says that the logs have been silent for so long."""
    attempt = world.live(job)
    if attempt is not None:
        since = world.now.at(world.boot_s - silent_s)
        about = {"job_id": job.id, "serial": attempt.serial}
        world.step(ev.SilenceReported(at=world.now, **about, happened=since))


def be_silent(world: World, job: Job, seconds: float, silent_s: float = 0.0) -> None:
    """So many seconds pass in silence, after `silent_s` of it; the host looks every 5 s."""
    for passed in range(5, round(seconds) + 1, 5):
        world.pass_time(5.0)
        if silent_s + passed >= LIMIT_S / 2:
            say(world, job, silent_s + passed)


def warned(world: World) -> list[Warned]:
    return [each for decision in world.decisions for each in decision.warned]


def test_a_silent_job_is_warned_and_then_stopped_with_both_numbers() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S)
    be_silent(world, job, 75.0)
    assert not warned(world)
    be_silent(world, job, 20.0, 75.0)
    (said,) = warned(world)
    assert (said.kind, said.text) == (
        "silent",
        "it has printed nothing for 1m20s (limit 1m40s); it is stopped in 20s",
    )
    assert world.state(job) is JobState.RUNNING
    be_silent(world, job, 5.0, 95.0)
    found = world.jobs[job.id]
    assert (found.state, found.outcome) == (JobState.TIMEOUT, Outcome.TIMEOUT)
    assert found.reason == "silent for 1m40s (limit 1m40s)"


def test_nothing_heard_from_the_host_stops_nobody() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S)
    world.pass_time(100_000.0)
    assert world.state(job) is JobState.RUNNING and not warned(world)


@pytest.mark.parametrize("how", ["log", "progress"])
def test_a_word_of_the_job_takes_the_warning_back(how: str) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S)
    be_silent(world, job, 90.0)
    assert world.live(job).warnings
    if how == "log":
        say(world, job, 0.0)
    else:
        world.report(job, step=1.0)
    assert not world.live(job).warnings
    silent_s = 0.0 if how == "log" else 90.0
    be_silent(world, job, 95.0, silent_s)
    assert world.state(job) is JobState.RUNNING
    be_silent(world, job, 10.0, silent_s + 95.0)
    assert world.state(job) is JobState.TIMEOUT and len(warned(world)) == 2


def test_the_signal_before_a_limit_is_sent_before_this_one_too() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S, signal=EarlySignal(10, 40.0))
    be_silent(world, job, 60.0)
    sent = [a for a in world.actions if isinstance(a, act.SendSignal)]
    assert [a.number for a in sent] == [10] and len(warned(world)) == 1
    be_silent(world, job, 35.0, 60.0)
    assert world.state(job) is JobState.RUNNING
    be_silent(world, job, 5.0, 95.0)
    assert world.state(job) is JobState.TIMEOUT
    assert len([a for a in world.actions if isinstance(a, act.SendSignal)]) == 1


def test_a_late_look_warns_before_it_stops() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S)
    world.pass_time(500.0)
    say(world, job, 500.0)
    assert world.state(job) is JobState.RUNNING and len(warned(world)) == 1
    world.pass_time(10.0)
    say(world, job, 510.0)
    assert world.state(job) is JobState.TIMEOUT


def test_silence_before_its_start_is_not_the_job_s() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S)
    world.pass_time(50.0)
    say(world, job, 5000.0)
    assert not warned(world)


@pytest.mark.parametrize("limit_s", [None, 1000.0])
def test_an_edit_spares_a_running_job(limit_s: float | None) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S)
    be_silent(world, job, 90.0)
    assert world.edit(job, silent_limit_s=limit_s) is None
    assert not world.live(job).warnings
    be_silent(world, job, 300.0, 90.0)
    assert world.state(job) is JobState.RUNNING


def test_an_attempt_that_nobody_looks_at_gets_no_limit() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    assert "only while it waits" in (world.edit(job, silent_limit_s=LIMIT_S) or "")
    say(world, job, 5000.0)
    assert world.state(job) is JobState.RUNNING


@pytest.mark.parametrize("reports", [True, False])
def test_reports_that_no_daemon_heard_do_not_count_as_silence(reports: bool) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, silent_limit_s=LIMIT_S)
    if reports:
        world.report(job, step=1.0)
    world.boot_s += 85.0
    world.restart()
    say(world, job, 85.0)
    assert bool(warned(world)) is not reports
    be_silent(world, job, 20.0, 85.0)
    assert (world.state(job) is JobState.RUNNING) is reports
    be_silent(world, job, 85.0, 105.0)
    assert world.state(job) is JobState.TIMEOUT
