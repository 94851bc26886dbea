"""Processes that outlive KILL: their job ends, and never runs twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import (
    AttemptMemory,
    Exit,
    Reading,
)
from radrm.core.words import ActionKind, JobState, Outcome
from tests.core.actions.silent import (
    HERE,
    each_restart,
    silent,
    until_due,
)
from tests.core.placements import CORE, start
from tests.world import GIB, World


def unkillable(**spec: Any) -> World:
    """A job whose KILL was sent and is not answered."""
    world, _ = silent(**spec)
    world.pass_time(5.0)
    return world


def stopped_by(world: World, how: str) -> None:
    if how == "cancelled":
        world.cancel(1)
    elif how == "preempted":
        world.requeue(1, from_start=True)
    else:
        world.edit(1, time_limit_s=1.0)
        world.step(ev.Tick(at=world.now))
    assert world.state(1) is JobState.STOPPING


ENDS = [
    ("cancelled", JobState.CANCELLED, Outcome.CANCELLED, "cancelled by ann"),
    ("preempted", JobState.FAILED, Outcome.LOST, "requeued by ann"),
    ("timeout", JobState.TIMEOUT, Outcome.TIMEOUT, "time limit (1s) reached"),
]


@pytest.mark.parametrize("how, state, outcome, why", ENDS)
@each_restart
def test_a_job_whose_processes_outlive_kill_ends_and_is_not_run_again(
    how: str,
    state: JobState,
    outcome: Outcome,
    why: str,
    restart: Callable[[World], None],
) -> None:
    world = unkillable(requeue=True, retries=5)
    stopped_by(world, how)
    world.pass_time(CORE.grace_s)
    kills = [a for a in world.actions if isinstance(a, act.Kill)]
    assert kills == [act.Kill(job_id=1, serial=1)]
    assert until_due(world, ActionKind.KILL) == CORE.unkillable_s
    world.pass_time(CORE.unkillable_s - 1.0)
    restart(world)
    assert world.state(1) is JobState.STOPPING
    world.pass_time(1.0)
    job, attempt = world.jobs[1], world.attempts[1, 1]
    assert (job.state, job.attempts, attempt.outcome) == (state, 1, outcome)
    left = "; its processes have not ended 5m00s after KILL and may still run"
    assert job.reason == attempt.reason == why + left
    assert attempt.pending == () and not world.stored
    world.pass_time(1e6)
    assert world.jobs[1].state is state, "its processes may still run, so it does not"
    assert not [a for a in world.decisions[-1].actions if isinstance(a, act.Kill)]


def test_the_end_of_one_that_was_given_up_is_ignored() -> None:
    world = unkillable(requeue=True)
    world.cancel(1)
    world.pass_time(CORE.grace_s)
    world.pass_time(CORE.unkillable_s)
    before = world.jobs[1], world.attempts[1, 1]
    late = ev.AttemptEnded(at=world.now, job_id=1, serial=1, exits=(Exit(signal=9),))
    decision = world.step(late)
    assert (decision.changed, decision.actions) == ((), ())
    assert (world.jobs[1], world.attempts[1, 1]) == before


def test_an_end_in_time_ends_the_deadline() -> None:
    world = unkillable()
    world.cancel(1)
    world.pass_time(CORE.grace_s)
    world.end(1, signal=9)
    world.pass_time(CORE.unkillable_s)
    assert world.jobs[1].reason == "cancelled by ann"


def test_memory_of_processes_that_were_given_up_counts_as_unmanaged() -> None:
    world = unkillable()
    world.cancel(1)
    world.pass_time(CORE.grace_s)
    world.pass_time(CORE.unkillable_s)
    other = world.submit(GIB)
    start(world, other, HERE)

    def used(*attempts: AttemptMemory) -> tuple[int | None, int | None]:
        """What is unmanaged, and what the other job uses."""
        reading = Reading("GPU-0", world.now, used_mib=9 * GIB, attempts=attempts, smact=0.1)
        world.step(ev.ReadingsTaken(at=world.now, readings=(reading,)))
        device = world.scheduler.snapshot.device("GPU-0")
        assert device is not None
        occupant = world.scheduler.state.ledgers["GPU-0"].occupants[other.id]
        return device.unmanaged_mib, occupant.observed_mib

    gone = AttemptMemory(1, 1, 7 * GIB)
    assert used(gone, AttemptMemory(2, 2, 2 * GIB)) == (7 * GIB, 2 * GIB)
    assert used(gone, AttemptMemory(2, 2, None)) == (7 * GIB, 2 * GIB), "not the other job's"
    assert used(gone) == (9 * GIB, 0)
    assert used(AttemptMemory(1, 1, 99 * GIB), AttemptMemory(2, 2, None)) == (9 * GIB, 0)


def test_a_reading_from_before_it_was_given_up_does_not_count() -> None:
    world = unkillable()
    world.cancel(1)
    world.pass_time(CORE.grace_s)
    before = world.now
    world.pass_time(CORE.unkillable_s)
    reading = Reading(
        "GPU-0", before, used_mib=7 * GIB, attempts=(AttemptMemory(1, 1, 7 * GIB),), smact=0.1
    )
    world.step(ev.ReadingsTaken(at=world.now, readings=(reading,)))
    device = world.scheduler.snapshot.device("GPU-0")
    assert device.unreadable(world.boot_s) is not None
    assert device.unmanaged_mib != 7 * GIB
