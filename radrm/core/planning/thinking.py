"""Have a slow planner make its plan: the one way for daemon, simulator and tests.

Theory of operation
-------------------
A slow planner makes its plan outside `step`. `want` begins a thought by the action `Think`; the
host answers with `PlanReady`. `Planners` carries out the plan.

Invariants:
- A planner has at most one thought under way. Any number of events meanwhile lead to one more.
- A planner begins at most one thought in `SOONEST_S`, so two slow planners that listen to each
  other cannot hold a moment for ever.
- Every thought ends: by its answer, by `ActionFailed`, or at its deadline. A later answer is
  known by its number, and ignored.

What may interleave: any event. What the plan is about may have changed meanwhile, so each
proposal is compared with the version of the snapshot (`State.touched_since`).

What a restart sees: nothing is under way. The planner's own state is in its `RuleState`, as of
its last plan; the events of the restart have it think again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from radrm.core.actions import Think
from radrm.core.events import PlanReady
from radrm.core.planning.asking import checked_wake, drawn, state_of
from radrm.core.planning.shapes import plain
from radrm.core.proposals import Proposal
from radrm.core.records import Instant
from radrm.core.rules import Planner, SlowPlanner, is_slow
from radrm.core.snapshot import Snapshot
from radrm.core.state.isolation import RuleFailed, call_rule
from radrm.core.state.state import State
from radrm.core.state.timers import THINK, Timer


class Thought(Struct, frozen=True):
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
        plan = call_rule(planner.think, snapshot.view, plain(state))
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


SOONEST_S = 1.0
"""The least time from the beginning of a thought to that of the next one."""
_TIMES, _MORE_S = 20, 60.0


def deadline_s(limit_s: float) -> float:
    """Return the seconds after which a thought with this limit is given up.

    The host's own limits come first: it must start a process, on a busy server, before the
    planner's time begins. This one is for a host that never answers.
    """
    return _TIMES * limit_s + _MORE_S


class UnderWay(Struct, frozen=True):
    """A thought that has begun. `until_s`: the boot time of its deadline."""

    number: int
    since_s: float
    until_s: float


class Thoughts:
    """The thoughts of all slow planners, by the planner's name."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._under_way: dict[str, UnderWay] = {}
        self._wanted: set[str] = set()
        """The planners that must think again."""
        self._soonest_s: dict[str, float] = {}
        self._number = 0

    def want(self, planner: SlowPlanner) -> None:
        """Have a planner think: now, after its present thought, or in a moment."""
        state, name = self._state, planner.name
        now_s, soonest_s = state.step.now.boot_s, self._soonest_s.get(name, 0.0)
        if name in self._under_way or now_s < soonest_s:
            if name not in self._wanted:
                self._wanted.add(name)
                state.wake(Timer(soonest_s, THINK + name))
            return
        self._wanted.discard(name)
        kept, limit_s = state_of(state, planner), state.settings.think_s
        self._number += 1
        until_s = now_s + deadline_s(limit_s)
        self._under_way[name] = UnderWay(self._number, now_s, until_s)
        self._soonest_s[name] = now_s + SOONEST_S
        state.wake(Timer(until_s, THINK + name))
        state.act(Think(planner=name, number=self._number, state=kept, limit_s=limit_s))

    def under_way(self, name: str) -> UnderWay | None:
        """Return the present thought of a planner; None if it has none."""
        return self._under_way.get(name)

    def end(self, name: str, number: int) -> bool:
        """End the thought with this number. False if it is not, or no longer, under way."""
        thought = self._under_way.get(name)
        if thought is None or thought.number != number:
            return False
        del self._under_way[name]
        return True

    def overdue(self, name: str) -> bool:
        """Return whether a planner's thought has passed its deadline; it ends by that."""
        thought = self._under_way.get(name)
        if thought is None or self._state.step.now.boot_s < thought.until_s:
            return False
        return self.end(name, thought.number)

    def is_due(self, name: str) -> bool:
        """Return whether a planner must think again, and can."""
        if name in self._under_way or name not in self._wanted:
            return False
        return self._state.step.now.boot_s >= self._soonest_s[name]

    def forget(self, name: str) -> None:
        """Forget that a planner must think again: it rests, and is asked after that."""
        self._wanted.discard(name)
