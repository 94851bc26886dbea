"""What is pending over a restart, and what holds only from the next attempt on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radrm.core import actions as act
from radrm.core.lifecycle.pending import PROTOCOL
from radrm.core.proposals import (
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    TakeCheckpointNow,
)
from radrm.core.records import Checkpoint, Job
from radrm.core.words import ActionKind, CheckpointKind
from radrm.structs import replace
from tests.core.actions.silent import CAPPED, GROWN, HERE, each_restart, silent
from tests.core.placements import on, propose, start
from tests.core.saving.server import save
from tests.world import World


def share(world: World, job: Job, **change: float | None) -> None:
    attempt = world.live(job)
    shares = tuple(replace(s, **change) for s in attempt.placement.shares)
    assert propose(world, SetShares(job_id=job.id, shares=shares)) is None


@each_restart
def test_a_changed_sm_fraction_holds_from_the_next_attempt(
    restart: Callable[[World], None],
) -> None:
    world, job = silent(requeue=True)
    world.obey = True
    share(world, job, sm_fraction=0.5)
    attempt = world.live(job)
    assert attempt.placement == HERE, "its processes have what they have"
    share(world, job, cpus=2.0)
    restart(world)
    assert world.jobs[1].sm_fraction == 0.5, "a change of CPUs says nothing about it"
    propose(world, Preempt(job_id=1))
    start(world, world.jobs[1], HERE)
    attempt = world.live(job)
    assert attempt.placement.shares == CAPPED
    assert [a.placement.sm_fraction for a in world.actions if isinstance(a, act.Launch)] == [
        None,
        0.5,
    ]
    share(world, job, sm_fraction=None)
    assert world.jobs[1].sm_fraction is None


def test_a_placement_that_names_an_sm_fraction_keeps_it() -> None:
    world, job = silent(requeue=True)
    world.obey = True
    share(world, job, sm_fraction=0.5)
    propose(world, Preempt(job_id=1))
    own = replace(CAPPED[0], sm_fraction=0.25)
    start(world, world.jobs[1], replace(HERE, shares=(own,)))
    assert world.live(job).placement.shares == (own,)


@pytest.mark.parametrize(
    "proposal, action",
    [
        (TakeCheckpointNow(job_id=1), act.TakeCheckpoint),
        (Migrate(job_id=1, placement=on("GPU-1")), act.TakeCheckpoint),
        (ResizeTo(job_id=1, placement=GROWN), act.Resize),
        (SetShares(job_id=1, shares=CAPPED), act.ApplyShares),
    ],
)
def test_an_action_that_may_not_have_reached_the_host_is_asked_for_again(
    proposal: Proposal, action: type[act.DueAction]
) -> None:
    world, _ = silent()
    assert propose(world, proposal) is None
    (asked,) = [a for a in world.actions if isinstance(a, action)]
    world.pass_time(1.0)
    world.restart()
    assert [a for a in world.actions if isinstance(a, action)] == [asked, asked]


def test_what_has_been_saved_or_is_overdue_is_not_asked_for_again() -> None:
    world, job = silent(Checkpoint(CheckpointKind.EXIT))
    propose(world, Migrate(job_id=1, placement=on("GPU-1")))
    world.pass_time(1.0)
    save(world, job, 0.5)
    world.restart()
    assert len([a for a in world.actions if isinstance(a, act.TakeCheckpoint)]) == 1


def test_every_kind_of_action_has_a_row() -> None:
    assert set(PROTOCOL) == set(ActionKind)
