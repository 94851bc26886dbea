"""The adoption of attempts, in process: what the next daemon does to them at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest

from radrm.core.records import Exit, Progress
from radrm.core.words import JobState
from radrm.daemon.attempts import Attempts
from radrm.daemon.mps import Stops
from radrm.host.attempts.evidence import Ended, Lost, Running, Saved, Void
from tests.world import GIB, World, gpus


def adopted(world: World, found: object, rebooted: bool = False) -> Any:
    """The launcher of a daemon that adopts the world's attempts; all have become `found`."""
    launcher = Mock(**{"adopt.return_value": found, "serials.return_value": []})
    clock = SimpleNamespace(now=lambda: world.now, is_of_this_boot=lambda at: not rebooted)
    parts: Any = SimpleNamespace(
        scheduler=world.scheduler,
        devices=SimpleNamespace(clock=clock, mps=None),
        records=Mock(),
        attempts=Mock(launcher=launcher),
    )
    attempts = Attempts(parts, Stops(launcher, None, Mock()), Mock())
    alive = Mock()
    launcher.events = attempts.adopt(alive)
    # Between two of them, for a thousand take long and systemd waits for a sign.
    assert len(alive.mock_calls) == len(world.scheduler.snapshot.running)
    return launcher


def test_an_attempt_that_was_being_stopped_gets_its_term_again() -> None:
    """The earlier daemon was killed after it had saved the stop, perhaps before it sent TERM."""
    world = World(gpus(2))
    world.obey = False
    stopped, _ = world.submit(GIB), world.submit(GIB)
    world.cancel(stopped)
    assert adopted(world, Running(None)).terminate.mock_calls == [call(1)]


@pytest.mark.parametrize("began", [True, False])
def test_one_that_has_ended_gets_none(began: bool) -> None:
    world = World(gpus(1))
    world.obey = False
    world.cancel(world.submit(GIB))
    lost = Lost("its runner was killed", began, None)
    assert adopted(world, lost).terminate.mock_calls == []


@pytest.mark.parametrize("found", [Void(), Lost("its runner was killed", False, None)])
@pytest.mark.parametrize("rebooted", [False, True])
def test_a_launch_without_a_start_record_is_void_in_the_same_boot_only(
    found: object, rebooted: bool
) -> None:
    """No record of it was synced, so after a power failure nothing proves that it had not begun."""
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB)
    for event in adopted(world, found, rebooted).events:
        world.step(event)
    assert (world.state(job) is JobState.FAILED) == rebooted


@pytest.mark.parametrize(("age_s", "done"), [(5.0, 0.9), (30.0, 0.4)])
def test_a_job_that_ended_while_no_daemon_ran_has_its_last_report(
    age_s: float, done: float
) -> None:
    """An older one than is known (of an earlier attempt, for one) is none."""
    world = World(gpus(1))
    job = world.submit(GIB)
    world.pass_time(100.0)
    world.report(job, work_done=0.4)
    world.pass_time(20.0)
    last = Progress(world.now.at(world.now.boot_s - age_s), work_done=0.9)
    ended = Ended(world.now, Exit(0), None, None, saved=Saved(reported=last))
    for event in adopted(world, ended).events:
        world.step(event)
    assert world.state(job) is JobState.COMPLETED
    assert world.jobs[job.id].progress.work_done == done
