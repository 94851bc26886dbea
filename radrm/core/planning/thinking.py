"""Have a slow planner make its plan: the one way for daemon, simulator and tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from radrm.core.actions import Think
from radrm.core.events import PlanReady
from radrm.core.planning.asking import checked_wake, drawn
from radrm.core.planning.shapes import plain
from radrm.core.proposals import Proposal
from radrm.core.records import Instant
from radrm.core.rules import Planner, SlowPlanner, is_slow
from radrm.core.snapshot import Snapshot
from radrm.core.state.isolation import RuleFailed, call_rule


@dataclass(frozen=True, slots=True)
class Thought:
    """A slow planner's plan with all its proposals, or the reason why there is none."""

    proposals: tuple[Proposal, ...] = ()
    state: Any = None
    wake_at: float | None = None
    error: str | None = None


def think(planner: SlowPlanner, snapshot: Snapshot, state: Any) -> Thought:
    """Return the checked plan of a slow planner. Whatever the planner does, this does not raise.

    It takes as long as the planner; only a process of its own can limit that.
    """
    try:
        plan = call_rule(planner.think, snapshot, plain(state))
        proposals = tuple(drawn(plan, len(snapshot.jobs)))
        remembered = call_rule(lambda: plain(plan.state))
        wake_at = checked_wake(call_rule(lambda: plan.wake_at))
    except RuleFailed as failed:
        return Thought(error=str(failed))
    return Thought(proposals, remembered, wake_at)


def ready(action: Think, version: int, thought: Thought, at: Instant) -> PlanReady:
    """Return the event that answers `action`; `version` is the snapshot's."""
    return PlanReady(
        at=at,
        planner=action.planner,
        number=action.number,
        version=version,
        proposals=thought.proposals,
        state=thought.state,
        wake_at=thought.wake_at,
        error=thought.error,
    )


def think_in_place(
    planners: Iterable[Planner | SlowPlanner], action: Think, snapshot: Snapshot, at: Instant
) -> PlanReady:
    """Have one of these planners think now; return the event that answers `action`.

    For hosts in virtual time: a plan takes no time there.
    """
    planner = next(each for each in planners if is_slow(each) and each.name == action.planner)
    return ready(action, snapshot.version, think(planner, snapshot, action.state), at)
