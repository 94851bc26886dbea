"""Call planners. Their proposals are drawn one by one, and each is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from radrm.core.events import Event
from radrm.core.planning.shapes import are_refusals, checked_proposal, plain
from radrm.core.proposals import Proposal
from radrm.core.records import Job, Refusal, RuleState
from radrm.core.rules import Plan, Planner
from radrm.core.state.isolation import RuleFailed, WrongAnswer, call_rule
from radrm.core.state.state import State
from radrm.core.state.timers import AT_ONCE, PLANNER, Timer
from radrm.core.view import View

MOST_PROPOSALS = 2000
"""An answer may hold this many proposals more than jobs. A generator may never end."""
SOONEST_WAKE_S = 0.1
"""The least time to a planner's wake-up. A planner may always ask for now."""

_END = object()


def proposals(state: State, view: View, planner: Planner, event: Event) -> Iterator[Proposal]:
    """Yield a planner's proposals; carry out each one before you draw the next.

    Saves the planner's state at the end. Raises `RuleFailed`; earlier proposals stay.
    """
    key = ("planner", planner.name)
    kept = state.rule_states.get(key)
    usable = kept is not None and kept.version == planner.version
    before = plain(kept.state) if kept and usable else None
    plan = call_rule(lambda: planner.plan(view, event, before))
    if not isinstance(plan, Plan):
        raise RuleFailed(WrongAnswer(f"it answered with a {type(plan).__name__}, not a Plan"))
    drawn = call_rule(lambda: iter(plan.proposals))
    most = MOST_PROPOSALS + len(state.jobs)
    # One more than allowed is drawn, to see whether the plan ends.
    for count in range(most + 1):
        proposal = call_rule(lambda: next(drawn, _END))
        if proposal is _END:
            break
        if count == most:
            raise RuleFailed(WrongAnswer(f"it proposed more than {most} things at once"))
        yield checked_proposal(proposal)
    remembered = call_rule(lambda: plain(plan.state))
    wake_s = _wake_s(plan.wake_at, state.step.now.boot_s)
    if remembered is not None or wake_s is not None or kept is not None:
        state.put_rule_state(RuleState(*key, planner.version, remembered, wake_s))
    if wake_s is not None:
        state.wake(Timer(wake_s, PLANNER + planner.name))


def bounded(state: State, found: Sequence[Proposal]) -> list[Proposal]:
    """Return a slow planner's proposals, at most as many as an answer may hold.

    Raises `RuleFailed`.
    """
    return [checked_proposal(proposal) for proposal in found[: MOST_PROPOSALS + len(state.jobs)]]


def is_wanted(state: State, timer: Timer) -> bool:
    """Return whether a timer is the last wake-up that its planner asked for."""
    kept = state.rule_states.get(("planner", timer.what.removeprefix(PLANNER)))
    at_once = timer.boot_s == AT_ONCE  # set by a restart
    return at_once or (kept is not None and kept.wake_boot_s == timer.boot_s)


def _wake_s(wake_at: object, now_s: float) -> float | None:
    """Return the boot time of a planner's wake-up; None: no wake-up. Raises `RuleFailed`."""
    if wake_at is None or wake_at == float("inf"):
        return None
    if not isinstance(wake_at, (int, float)) or isnan(wake_at):
        raise RuleFailed(WrongAnswer(f"its wake_at is {wake_at!r:.40}, not a time"))
    return max(float(wake_at), now_s + SOONEST_WAKE_S)


def explanation(view: View, planner: Planner, job: Job) -> tuple[Refusal, ...]:
    """Return a planner's reasons why a job waits, or why the planner cannot say."""
    try:
        found = call_rule(lambda: tuple(planner.explain(view, job)))
        if are_refusals(found):
            return found
        wrong = "its explanation is not made of refusals"
    except RuleFailed as failed:
        wrong = str(failed)
    return (Refusal("rule", f"the planner {planner.name} cannot say why: {wrong}"),)
