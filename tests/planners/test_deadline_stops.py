"""Whom `deadline` stops, for whom, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.records import Checkpoint, Instant, Job
from radrm.core.words import CheckpointKind, JobState
from tests.planners.due import CAN_SAVE, Due, end_and_read, running
from tests.world import World


def long_running(world: Due, due_in_s: float | None = None, **spec: Any) -> Job:
    """A job that has run for ten minutes, and would for hours."""
    job = world.job(20_000.0, due_in_s, **{"checkpoint": CAN_SAVE, **spec})
    world.pass_time(600.0)
    return job


def test_a_job_that_can_save_gives_way_if_that_saves_more_than_it_costs() -> None:
    world = Due()
    victim = long_running(world)
    urgent = world.job(300.0, 400.0, weight=2.0)
    assert (world.asked, world.state(victim)) == ([victim.id], JobState.PENDING)
    world.read()
    assert running(world, urgent) == [True]
    end_and_read(world, urgent)
    assert running(world, victim) == [True]


@pytest.mark.parametrize(
    "spec",
    [
        {"checkpoint": Checkpoint()},
        {"checkpoint": Checkpoint(), "requeue": True},
        {"due_in_s": 20_100.0, "weight": 50.0},
        {"priority": 1},
    ],
    ids=["cannot save", "only requeue", "its own tardiness", "a higher priority"],
)
def test_who_is_not_stopped(spec: dict[str, Any]) -> None:
    world = Due()
    victim = long_running(world, **spec)
    world.job(300.0, 400.0)
    world.pass_time(100.0)
    assert (world.asked, world.state(victim)) == ([], JobState.RUNNING)


def test_nobody_is_stopped_for_a_job_that_is_in_time_or_wins_little() -> None:
    world = Due()
    long_running(world)
    world.job(100.0, 30_000.0)
    world.job(100.0, 19_420.0, weight=0.3)
    world.pass_time(60.0)
    assert world.asked == []


def test_a_job_runs_for_a_while_before_it_is_stopped_and_after_it_was() -> None:
    world = Due()
    victim = world.job(50_000.0, checkpoint=CAN_SAVE)
    first = world.job(300.0, 400.0, weight=5.0)
    world.pass_time(290.0)
    assert world.asked == []
    world.pass_time(20.0)
    assert world.asked == [victim.id]
    world.read()
    end_and_read(world, first)
    assert running(world, victim) == [True]
    world.job(300.0, 400.0, weight=5.0)
    world.pass_time(1700.0)
    assert world.asked == [victim.id], "cooldown_s"
    world.pass_time(120.0)
    assert world.asked == [victim.id] * 2


@pytest.mark.parametrize("boot", [False, True], ids=["", "after a restart"])
def test_a_job_that_never_saves_is_not_asked_again_at_once(boot: bool) -> None:
    world = Due()
    world.saves = False
    victim = long_running(world)
    urgent = world.job(300.0, 400.0, weight=5.0)
    assert world.asked == [victim.id]
    assert world.reasons(urgent)[0] == f"job {victim.id} (job1) saves its work and gives way to it"
    world.job(200.0, 300.0, weight=5.0)
    world.pass_time(60.0)
    assert world.asked == [victim.id], "one at a time"
    world.pass_time(world.settings.checkpoint_limit_s)
    assert world.state(victim) is JobState.RUNNING
    if boot:
        world.restart()
    world.pass_time(900.0)
    assert world.asked == [victim.id]
    world.pass_time(2000.0)
    assert world.asked == [victim.id] * 2


def test_while_a_job_takes_long_to_save_no_other_one_is_asked_for_the_same() -> None:
    world = Due(2)
    world.saves = False
    slow = Checkpoint(CheckpointKind.SIGNAL, cost_s=1500.0)
    long_running(world, checkpoint=slow)
    world.job(20_000.0, checkpoint=slow)
    world.pass_time(600.0)
    urgent = world.job(300.0, 400.0, weight=500.0)
    (asked,) = world.asked
    for _ in range(8):
        world.pass_time(500.0)
    assert world.asked == [asked], "its request lasts for longer than cooldown_s"
    world.saves = True
    attempt = world.attempts[asked, 1]
    world.step(ev.CheckpointTaken(at=world.now, job_id=asked, serial=attempt.serial))
    world.read()
    assert running(world, urgent) == [True]


def test_a_clock_that_is_set_back_lengthens_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Due()
    world.saves = False
    victim = long_running(world)
    world.job(300.0, 400.0, weight=5.0)
    now = World.now.fget
    assert now is not None and world.asked == [victim.id]
    back = property(lambda w: Instant(now(w).boot_s, now(w).wall_s - 1e6))
    monkeypatch.setattr(World, "now", back)
    world.restart()
    asked = [victim.id, victim.id]
    assert world.asked == asked, "what a killed daemon may not have sent is sent again"
    world.job(300.0, 400.0, weight=5.0)
    world.pass_time(world.settings.checkpoint_limit_s + 10.0)
    assert world.asked == asked
    world.pass_time(1900.0)
    world.pass_time(60.0)
    assert world.asked == [*asked, victim.id]


def test_what_is_kept_ends_with_its_reason() -> None:
    world = Due()
    victim = long_running(world)
    urgent = world.job(300.0, 400.0, weight=5.0)
    assert world.notes["stops"].keys() == {str(victim.id)}
    world.read()
    end_and_read(world, urgent)
    world.pass_time(2000.0)
    world.job(10.0, 1e6)
    assert world.notes.keys() == {"scale_s"}
    end_and_read(world, victim)
    for job in list(world.jobs.values()):
        if not job.state.final:
            end_and_read(world, job)
    world.read()
    assert world.notes == {}


def test_kinds_of_ways_to_save() -> None:
    world = Due()
    victim = long_running(world, checkpoint=Checkpoint(CheckpointKind.EXIT, cost_s=5.0))
    world.job(300.0, 400.0, weight=5.0)
    assert world.asked == [victim.id]
