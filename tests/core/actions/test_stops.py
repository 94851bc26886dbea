"""The reasons of a stop are ordered: CANCELLED > TIMEOUT > LOST > PREEMPTED; it only moves up."""

from __future__ import annotations

from itertools import product

import pytest

from radrm.core.lifecycle import stops
from radrm.core.words import JobState, StopReason
from tests.world import GIB, World, gpus

RANKING = [StopReason.CANCELLED, StopReason.TIMEOUT, StopReason.LOST, StopReason.PREEMPTED]
ENDS = {
    StopReason.CANCELLED: JobState.CANCELLED,
    StopReason.TIMEOUT: JobState.TIMEOUT,
    StopReason.LOST: JobState.FAILED,
    StopReason.PREEMPTED: JobState.LAUNCHING,
}


def stopping(first: StopReason, requeue: bool = False) -> World:
    """A world where job 1 is being stopped and still runs."""
    world = World(gpus(1))
    world.submit(GIB, requeue=requeue)
    world.obey = False
    stop(world, first)
    return world


def stop(world: World, reason: StopReason) -> None:
    state = world.scheduler.state
    state.begin(world.now)
    stops.stop(state, state.jobs[1], state.attempts[1], reason)
    world._save(state.finish())


def stands_for(world: World) -> StopReason:
    attempt = world.live(1)
    assert attempt is not None and attempt.stop is not None
    return attempt.stop.reason


@pytest.mark.parametrize(("first", "then"), list(product(RANKING, RANKING)))
def test_the_higher_reason_stands_whichever_came_first(first: StopReason, then: StopReason) -> None:
    world = stopping(first)
    stop(world, then)
    reason = min(first, then, key=RANKING.index)
    assert stands_for(world) is reason
    world.end(1, signal=15)
    assert world.state(1) is ENDS[reason]
    assert world.attempts[1, 1].outcome is not None
    assert world.attempts[1, 1].outcome.value == reason.value


@pytest.mark.parametrize("first", RANKING)
def test_a_cancel_during_any_stop_is_the_end(first: StopReason) -> None:
    """Also of a job that would go back into its queue: it is not what its user asked for."""
    world = stopping(first, requeue=True)
    world.cancel(1)
    world.end(1, signal=15)
    assert world.state(1) is JobState.CANCELLED
    assert world.jobs[1].reason == (
        "cancelled" if first is StopReason.CANCELLED else "cancelled by ann"
    )


@pytest.mark.parametrize("first", RANKING)
def test_a_stop_that_changes_its_reason_keeps_its_deadline_and_asks_once(first: StopReason) -> None:
    world = stopping(first)
    before = world.live(1)
    world.boot_s += 5.0
    world.cancel(1)
    after = world.live(1)
    assert before and before.stop and after and after.stop
    assert after.stop.kill_boot_s == before.stop.kill_boot_s
    assert world.decisions[-1].actions == ()
