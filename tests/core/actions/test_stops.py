"""The reasons of a stop are ordered: CANCELLED > TIMEOUT > LOST > PREEMPTED; it only moves up."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.lifecycle import asking
from radrm.core.proposals import Migrate
from radrm.core.records import Exit, Instant
from radrm.core.words import DeviceKind, JobState, Outcome, StopReason
from tests.core.actions.silent import reserved, silent
from tests.core.placements import on, propose
from tests.world import EPOCH_S, GIB, World, gpus

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


def stop(world: World, reason: StopReason, why: str | None = None) -> None:
    state = world.scheduler.state
    state.begin(world.now)
    asking.stop(state, state.jobs[1], state.attempts[1], reason, why)
    world._save(state.finish())


def stands_for(world: World) -> StopReason:
    return world.live(1).stop.reason


@pytest.mark.parametrize(("first", "then"), list(product(RANKING, RANKING)))
def test_the_higher_reason_stands_whichever_came_first(first: StopReason, then: StopReason) -> None:
    world = stopping(first)
    stop(world, then)
    reason = min(first, then, key=RANKING.index)
    assert stands_for(world) is reason
    world.end(1, signal=15)
    assert world.state(1) is ENDS[reason]
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


# ------------------------------------------------------------------ a later reason after the end


def ended_at(world: World, boot_s: float, code: int = 0) -> None:
    """All processes have ended then; it is heard of now."""
    happened = Instant(boot_s, EPOCH_S + boot_s)
    exits = (Exit(code),)
    event = ev.AttemptEnded(at=world.now, job_id=1, serial=1, happened=happened, exits=exits)
    world.step(event)


@pytest.mark.parametrize("higher", [StopReason.LOST, StopReason.TIMEOUT])
def test_a_higher_reason_after_the_end_leaves_the_one_that_ended_it(higher: StopReason) -> None:
    """The job was preempted, and goes on; nobody may find it lost or out of time."""
    world = stopping(StopReason.PREEMPTED)
    world.boot_s += 10.0
    end_s = world.boot_s - 5.0
    stop(world, higher, "a reason of later")
    world.restart()
    assert stands_for(world) is higher
    ended_at(world, end_s)
    assert world.attempts[1, 1].outcome is Outcome.PREEMPTED
    assert world.attempts[1, 1].reason == "preempted"
    assert world.state(1) is JobState.LAUNCHING


def test_a_cancel_after_the_end_counts_all_the_same() -> None:
    world = stopping(StopReason.PREEMPTED)
    world.boot_s += 10.0
    world.cancel(1)
    ended_at(world, world.boot_s - 5.0)
    assert world.state(1) is JobState.CANCELLED


def test_what_all_stops_came_too_late_for_was_not_stopped() -> None:
    world = World(gpus(1))
    world.submit(GIB)
    world.obey = False
    for reason in (StopReason.PREEMPTED, StopReason.TIMEOUT):
        world.boot_s += 10.0
        stop(world, reason, "a reason of later")
    ended_at(world, world.boot_s - 15.0)
    done = world.jobs[1]
    assert (done.state, done.outcome, done.reason) == (JobState.COMPLETED, Outcome.COMPLETED, None)


@pytest.mark.parametrize("reason", [StopReason.PREEMPTED, StopReason.TIMEOUT])
def test_a_stop_while_what_a_job_has_left_is_ended_comes_too_late(reason: StopReason) -> None:
    """Its script ended in time, so it does not run again, and those after it may start."""
    world = World(gpus(1))
    world.submit(GIB)
    world.obey = False
    itself = world.now
    world.boot_s += 1.0
    stop(world, reason, "a reason of later")
    world.boot_s += 1.0
    world.step(
        ev.AttemptEnded(
            at=world.now, job_id=1, serial=1, happened=world.now, exits=(Exit(0),), itself=itself
        )
    )
    assert world.state(1) is JobState.COMPLETED


# ------------------------------------------------------------------ whichever way it is asked


def at_limit(world: World) -> None:
    world.edit(1, time_limit_s=1.0)
    world.pass_time(2.0, read=False)


def vanish(world: World) -> None:
    world.step(ev.DevicesSeen(at=world.now, devices=()))


def requeue(world: World) -> None:
    world.requeue(1)


def cancel(world: World) -> None:
    world.cancel(1)


WAYS = {
    StopReason.CANCELLED: cancel,
    StopReason.TIMEOUT: at_limit,
    StopReason.LOST: vanish,
    StopReason.PREEMPTED: requeue,
}


@pytest.mark.parametrize(
    "ways", list(permutations(WAYS, 2)), ids=lambda ways: "-".join(r.value for r in ways)
)
@pytest.mark.parametrize("restart", [False, True])
def test_no_way_to_stop_a_job_replaces_a_stronger_reason(
    ways: tuple[StopReason, StopReason], restart: bool
) -> None:
    world = World(gpus(1, kind=DeviceKind.MIG, profile="1g.5gb"))
    world.submit(GIB)
    world.obey = False
    for way in ways:
        WAYS[way](world)
        if restart:
            world.restart()
    assert stands_for(world) is min(ways, key=RANKING.index)
    terms = [a for a in world.actions if isinstance(a, act.Terminate)]
    assert len(terms) == 1, "one TERM, whatever the reasons"


def test_a_stop_for_good_gives_up_the_target_of_a_migration() -> None:
    for reason in RANKING:
        world, job = silent()
        assert propose(world, Migrate(job_id=1, placement=on("GPU-1"))) is None
        stop(world, reason)
        goes_on = reason is StopReason.PREEMPTED
        assert (world.jobs[job.id].target is not None) is goes_on
        assert reserved(world) == {"GPU-0": 1, "GPU-1": int(goes_on)}


def test_a_launch_that_is_given_up_ends_as_lost_even_if_it_never_was() -> None:
    world = World(gpus(1))
    world.obey = False
    world.submit(GIB)
    world.pass_time(world.settings.action_limit_s)
    world.step(ev.LaunchVoided(at=world.now, job_id=1, serial=1))
    assert (world.state(1), world.jobs[1].outcome) == (JobState.FAILED, Outcome.LOST)
