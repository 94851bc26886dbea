"""Rules that never stop asking: each is paced, and the server does other work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import (
    Preempt,
    Proposal,
    ResizeTo,
    TakeCheckpointNow,
)
from radrm.core.records import (
    Role,
)
from radrm.core.rules import Plan, Rules
from radrm.core.view import View
from radrm.core.words import Resizing
from radrm.orders import Fifo
from radrm.structs import replace
from tests.contract.broken import (
    CAN_SAVE,
    EVERYTHING,
    Broken,
    Recovering,
    Stubborn,
    Watched,
    Wishing,
    flip,
    world_of,
)
from tests.world import GIB, default_planner, gpus


def move(view: View) -> Iterator[Proposal]:
    for job, attempt in view.running():
        devices = [d.uuid for d in view.devices() if d.uuid not in attempt.placement.devices]
        shares = tuple(replace(s, device=devices[0]) for s in attempt.placement.shares)
        yield ResizeTo(job_id=job.id, placement=replace(attempt.placement, shares=shares))


def resize(view: View) -> Iterator[Proposal]:
    """One task more, or one less."""
    for job, attempt in view.running():
        first, *more = attempt.placement.shares
        others = [d.uuid for d in view.devices() if d.uuid != first.device]
        second = replace(first, device=others[0], task=1)
        shares = (first,) if more else (first, second)
        yield ResizeTo(job_id=job.id, placement=replace(attempt.placement, shares=shares))


def save(view: View) -> Iterator[Proposal]:
    for job, _ in view.running():
        yield TakeCheckpointNow(job_id=job.id)


def preempt(view: View) -> Iterator[Proposal]:
    for job, _ in view.running():
        yield Preempt(job_id=job.id)


class Refusing(Watched):
    """A host that cannot do now what changes a running job."""

    def _do(self, action: act.Action) -> None:
        if isinstance(action, (act.ApplyShares, act.TakeCheckpoint, act.Resize)):
            failed = ev.ActionFailed(at=self.now, action=action, reason="not now", transient=True)
            self.step(failed)
        else:
            super()._do(action)


@pytest.mark.parametrize("host", [Watched, Refusing])
@pytest.mark.parametrize("how", [Resizing.LIVE, Resizing.RESTART])
@pytest.mark.parametrize("wish", [flip, move, resize, save, preempt])
def test_a_planner_that_never_has_enough_is_paced(
    host: type[Watched], wish: Any, how: Resizing
) -> None:
    world = host(gpus(2), planners=(default_planner(), Stubborn(wish)))
    roles = (Role(count_min=1, count_max=2),)
    job = world.submit(GIB, checkpoint=CAN_SAVE, roles=roles, requeue=True, resizing=how)
    world.read()
    first = len(world.actions)
    for _ in range(30):
        world.pass_time(60.0)
    assert len(world.actions) < first + 30 * 30, "and not only in its first moment"
    assert not world.jobs[job.id].state.final


def test_a_failed_proposals_pause_grows_and_the_timer_has_the_planner_asked() -> None:
    world = Refusing(gpus(1), planners=(default_planner(), Stubborn(flip)))
    world.rules.planners[1].listens = frozenset({ev.AttemptStarted, ev.ActionFailed})
    world.submit(GIB)
    times = []
    for _ in range(40):
        before = len(world.actions)
        world.pass_time(1.0)
        times += [world.boot_s - 1000.0] * (len(world.actions) - before)
    assert times == [1, 3, 7, 15, 31]
    refused = [r for d in world.decisions for _, r in d.rejections if r.rule == "pause"]
    assert "because it failed: not now" in refused[0].message


def test_a_planner_that_hears_of_failed_resizes_spins_nobody() -> None:
    """It asks again at once, each time that it hears of a failure."""
    world = Refusing(gpus(2), planners=(default_planner(), Stubborn(resize)))
    world.rules.planners[1].listens = frozenset({ev.AttemptStarted, ev.ActionFailed})
    world.submit(GIB, roles=(Role(count_min=1, count_max=2),))
    times = []
    for _ in range(40):
        before = len([a for a in world.actions if isinstance(a, act.Resize)])
        world.pass_time(1.0)
        asked = len([a for a in world.actions if isinstance(a, act.Resize)]) - before
        times += [world.boot_s - 1000.0] * asked
    assert times == [1, 3, 7, 15, 31]


def test_an_edit_lets_what_failed_be_tried_at_once() -> None:
    world = Refusing(gpus(1), planners=(default_planner(), Stubborn(flip)))
    job = world.submit(GIB)
    world.pass_time(20.0)
    before = len(world.actions)
    world.read()
    assert len(world.actions) == before
    world.edit(job, comment="another")
    world.read()
    assert len(world.actions) > before


def test_what_is_remembered_of_failures_ends_with_the_job() -> None:
    world = Refusing(gpus(1), planners=(default_planner(), Stubborn(flip)))
    job = world.submit(GIB)
    world.end(job)
    proposals = world.scheduler.state.proposals
    assert not list(proposals._pauses.all()) and not proposals._done and not proposals._kinds


def test_a_planner_that_always_wants_to_be_called_now_is_called_ten_times_a_second() -> None:
    """And its earlier wishes do not add up."""
    eager = Broken(make=lambda: Plan(wake_at=0.0), listens=EVERYTHING)
    world = world_of(default_planner(), eager)
    for _ in range(9):
        world.boot_s += 0.01
        world.read()
    before, until = eager.asked, world.boot_s + 1.0
    while world.boot_s < until:
        wake_at = world.decisions[-1].wake_at
        assert wake_at > world.boot_s
        world.boot_s = wake_at
        world.step(ev.Tick(at=world.now))
    assert eager.asked - before <= 11


def test_one_that_is_preempted_at_each_start_waits() -> None:
    wishing = Wishing(Preempt(job_id=1), listens=frozenset({ev.AttemptStarted}))
    world = Watched(gpus(1), planners=(default_planner(), wishing))
    world.submit(GIB, checkpoint=CAN_SAVE)
    assert wishing.asked <= 3
    assert world.why(1) == ["pause"]


def test_the_rules_of_a_world_without_a_stand_in_still_work() -> None:
    assert Rules(order=Fifo(), planners=(), recovery=Recovering(None)).fallback is None
