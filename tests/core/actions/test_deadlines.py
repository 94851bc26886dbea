"""A host that never answers: at its deadline an action is given up, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Proposal, ResizeTo, SetShares, TakeCheckpointNow
from radrm.core.records import (
    Progress,
    Share,
)
from radrm.core.words import ActionKind, JobState
from radrm.structs import replace
from tests.core.actions.silent import (
    CAPPED,
    COSTLY,
    GROWN,
    HERE,
    each_restart,
    reserved,
    silent,
    until_due,
)
from tests.core.placements import CORE, on, propose
from tests.world import GIB, World


@dataclass(frozen=True)
class Case:
    """A proposal whose action is never answered, and what must be as before afterwards."""

    kind: ActionKind
    proposal: Proposal
    limit_s: float
    held: dict[str, int]
    """Reservations on each device while it is pending."""


CASES = [
    Case(
        ActionKind.CHECKPOINT,
        Migrate(job_id=1, placement=on("GPU-1")),
        CORE.checkpoint_limit_s,
        {"GPU-0": 1, "GPU-1": 1},
    ),
    Case(
        ActionKind.CHECKPOINT,
        TakeCheckpointNow(job_id=1),
        CORE.checkpoint_limit_s,
        {"GPU-0": 1, "GPU-1": 0},
    ),
    Case(
        ActionKind.SHARES,
        SetShares(job_id=1, shares=CAPPED),
        CORE.action_limit_s,
        {"GPU-0": 1, "GPU-1": 0},
    ),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: type(c.proposal).__name__)


@each_case
@each_restart
def test_what_is_never_answered_fails_at_its_deadline(
    case: Case, restart: Callable[[World], None]
) -> None:
    world, job = silent()
    assert propose(world, case.proposal) is None
    assert reserved(world) == case.held
    assert until_due(world, case.kind) == case.limit_s
    world.pass_time(case.limit_s - 10.0)
    restart(world)
    assert until_due(world, case.kind) == 10.0, "a restart keeps it"
    assert reserved(world) == case.held
    world.pass_time(9.0)
    assert reserved(world) == case.held
    world.pass_time(1.0)
    attempt = world.live(job)
    assert (attempt.placement, attempt.target) == (HERE, None)
    assert (attempt.pending, world.jobs[1].target, world.state(job)) == ((), None, JobState.RUNNING)
    assert reserved(world) == {"GPU-0": 1, "GPU-1": 0}
    again = propose(world, case.proposal)
    assert again.rule == "pause" and "no answer within" in again.message
    world.pass_time(1.0)
    assert propose(world, case.proposal) is None, "later it may be tried again"


@each_case
def test_one_that_is_overdue_after_a_restart_fails_when_all_attempts_are_adopted(
    case: Case,
) -> None:
    world, _ = silent()
    propose(world, case.proposal)
    world.boot_s += case.limit_s + 1.0
    world.restart()
    assert world.live(1).pending == ()
    assert reserved(world) == {"GPU-0": 1, "GPU-1": 0}


@each_case
def test_after_a_reboot_no_deadline_is_out_of_reach(case: Case) -> None:
    """Its time was of another boot. Nobody has reported the attempt's end."""
    world, _ = silent()
    world.pass_time(1e6)
    assert propose(world, case.proposal) is None
    world.boot_s = 20.0
    world.restart()
    assert until_due(world, case.kind) == case.limit_s


def answers(world: World) -> list[ev.Event]:
    """All that a host can say of what it was asked for, also that it failed."""
    at, asked = world.now, [a for a in world.actions if isinstance(a, act.DueAction)]
    return [
        ev.Resized(at=at, job_id=1, serial=1, target=GROWN),
        ev.SharesApplied(at=at, job_id=1, serial=1, shares=CAPPED),
        *(ev.ActionFailed(at=at, action=action, reason="late") for action in asked),
    ]


@each_case
def test_a_late_answer_changes_nothing(case: Case) -> None:
    world, job = silent()
    propose(world, case.proposal)
    world.pass_time(case.limit_s)
    before = world.live(job), world.jobs[1]
    for event in answers(world):
        decision = world.step(event)
        assert (decision.changed, decision.dropped, decision.actions) == ((), (), ())
    assert (world.live(job), world.jobs[1]) == before


def test_a_late_answer_is_not_taken_for_that_of_the_next_action() -> None:
    world, job = silent()
    propose(world, ResizeTo(job_id=1, placement=GROWN))
    (first,) = [a for a in world.actions if isinstance(a, act.Resize)]
    world.step(ev.ActionFailed(at=world.now, action=first, reason="no"))
    world.pass_time(5.0)
    propose(world, ResizeTo(job_id=1, placement=GROWN))
    second = world.actions[-1]
    assert isinstance(second, act.Resize) and (first.generation, second.generation) == (2, 3)
    world.step(ev.ActionFailed(at=world.now, action=first, reason="late"))
    world.step(ev.Resized(at=world.now, job_id=1, serial=1, target=GROWN, generation=2))
    elsewhere = replace(GROWN, shares=(*HERE.shares, Share("GPU-9", GIB, task=1)))
    world.step(ev.Resized(at=world.now, job_id=1, serial=1, target=elsewhere))
    assert world.live(job).target == GROWN
    world.step(ev.ActionFailed(at=world.now, action=second, reason="no"))
    assert world.live(job).target is None


def test_caps_that_are_not_asked_for_any_more_are_not_taken() -> None:
    world, job = silent()
    assert propose(world, SetShares(job_id=1, shares=CAPPED)) is None
    others = (replace(CAPPED[0], sm_fraction=0.9),)
    world.step(ev.SharesApplied(at=world.now, job_id=1, serial=1, shares=others))
    attempt = world.live(job)
    assert attempt.placement == HERE and attempt.pending
    world.step(ev.SharesApplied(at=world.now, job_id=1, serial=1, shares=CAPPED))
    attempt = world.live(job)
    assert attempt.placement == HERE and not attempt.pending
    assert world.jobs[1].sm_fraction == 0.5


def test_a_late_checkpoint_is_noted_and_stops_nothing() -> None:
    world, job = silent()
    propose(world, Migrate(job_id=1, placement=on("GPU-1")))
    world.pass_time(CORE.checkpoint_limit_s)
    progress = Progress(at=world.now, work_done=0.5)
    world.step(ev.CheckpointTaken(at=world.now, job_id=1, serial=1, progress=progress))
    assert (world.jobs[1].saved, world.state(job)) == (progress, JobState.RUNNING)


def test_a_checkpoint_from_before_the_question_does_not_answer_it() -> None:
    world, job = silent()
    before = world.now
    world.pass_time(5.0)
    propose(world, Migrate(job_id=1, placement=on("GPU-1")))
    world.step(ev.CheckpointTaken(at=world.now, job_id=1, serial=1, happened=before))
    assert world.state(job) is JobState.RUNNING and world.jobs[1].saved_at is not None
    world.step(ev.CheckpointTaken(at=world.now, job_id=1, serial=1, happened=world.now))
    assert world.state(job) is JobState.STOPPING


def test_a_checkpoint_may_take_three_times_its_stated_cost() -> None:
    world, _ = silent(COSTLY)
    propose(world, TakeCheckpointNow(job_id=1))
    assert until_due(world, ActionKind.CHECKPOINT) == 3000.0


@pytest.mark.parametrize(
    "first, then, rule",
    [
        (Migrate(job_id=1, placement=on("GPU-1")), TakeCheckpointNow(job_id=1), "pending"),
        (TakeCheckpointNow(job_id=1), Migrate(job_id=1, placement=on("GPU-1")), "pending"),
        (SetShares(job_id=1, shares=CAPPED), ResizeTo(job_id=1, placement=GROWN), "pending"),
        (ResizeTo(job_id=1, placement=GROWN), SetShares(job_id=1, shares=CAPPED), "pending"),
        (SetShares(job_id=1, shares=CAPPED), SetShares(job_id=1, shares=HERE.shares), "pending"),
    ],
)
def test_actions_whose_answers_could_be_confused_exclude_each_other(
    first: Proposal, then: Proposal, rule: str
) -> None:
    world, _ = silent()
    assert propose(world, first) is None
    assert propose(world, then).rule == rule


# ------------------------------------------------------------------ targets that vanish


@each_restart
def test_a_target_that_vanishes_leaves_nothing_reserved(restart: Callable[[World], None]) -> None:
    world, _ = silent()
    both = world.devices
    propose(world, Migrate(job_id=1, placement=on("GPU-1", mib=8 * GIB)))
    world.devices = both[:1]
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    restart(world)
    assert world.jobs[1].target is None
    assert {r.device for r in world.stored.values()} == {"GPU-0"}
    world.devices = both
    world.step(ev.DevicesSeen(at=world.now, devices=both))
    assert reserved(world) == {"GPU-0": 1, "GPU-1": 0}


def test_a_target_that_is_missing_after_a_restart_leaves_nothing_reserved() -> None:
    world, _ = silent()
    both = world.devices
    propose(world, Migrate(job_id=1, placement=on("GPU-1", mib=8 * GIB)))
    world.devices = both[:1]
    world.restart()
    assert world.jobs[1].target is None
    assert {r.device for r in world.stored.values()} == {"GPU-0"}
    world.devices = both
    world.step(ev.DevicesSeen(at=world.now, devices=both))
    assert reserved(world) == {"GPU-0": 1, "GPU-1": 0}


@pytest.mark.parametrize("grows", [True, False])
def test_a_resize_ends_while_a_device_is_missing_since_the_restart(grows: bool) -> None:
    world, _ = silent()
    both = world.devices
    propose(world, ResizeTo(job_id=1, placement=GROWN))
    world.devices = both[:1]
    world.restart()
    if grows:
        world.step(ev.Resized(at=world.now, job_id=1, serial=1, target=GROWN))
    else:
        (asked,) = {a for a in world.actions if isinstance(a, act.Resize)}
        world.step(ev.ActionFailed(at=world.now, action=asked, reason="no"))
    assert world.live(1).placement == (GROWN if grows else HERE)
    world.devices = both
    world.step(ev.DevicesSeen(at=world.now, devices=both))
    assert reserved(world) == {"GPU-0": 1, "GPU-1": int(grows)}
