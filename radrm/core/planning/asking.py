"""Call planners. Their proposals are drawn one by one, and each is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf, isnan
from typing import Any

from radrm.core.events import Event
from radrm.core.planning.shapes import are_refusals, checked_proposal, plain
from radrm.core.proposals import Proposal
from radrm.core.records import Job, Refusal, RuleState
from radrm.core.rules import AnyPlanner, Plan, Planner
from radrm.core.state.isolation import RuleFailed, WrongAnswer, call_rule, error_line
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
    before = state_of(state, planner)
    plan = call_rule(planner.plan, view, event, before)
    yield from drawn(plan, len(state.jobs))
    remember(state, planner, *call_rule(_end_of, plan))


def _end_of(plan: Plan) -> tuple[Any, Any]:
    return plan.state, plan.wake_at


def _version_of(planner: AnyPlanner) -> int:
    return planner.version


def drawn(plan: object, jobs: int) -> Iterator[Proposal]:
    """Yield the checked proposals of a plan for so many jobs. Raises `RuleFailed`."""
    if not isinstance(plan, Plan):
        raise RuleFailed(WrongAnswer(f"it answered with a {type(plan).__name__}, not a Plan"))
    found: Any = call_rule(lambda: iter(plan.proposals))
    most = MOST_PROPOSALS + jobs
    try:
        # One more than allowed is drawn, to see whether the plan ends.
        for count in range(most + 1):
            proposal = call_rule(next, found, _END)
            if proposal is _END:
                return
            if count == most:
                raise RuleFailed(WrongAnswer(f"it proposed more than {most} things at once"))
            yield checked_proposal(proposal)
    except RuleFailed:
        # Else Python ends the generator later, by code of the rule that nothing limits.
        with suppress(RuleFailed):
            call_rule(lambda: found.close())
        raise


def bounded(state: State, found: Sequence[Proposal]) -> list[Proposal]:
    """Return a slow planner's proposals, at most as many as an answer may hold.

    Raises `RuleFailed`.
    """
    return [checked_proposal(proposal) for proposal in found[: MOST_PROPOSALS + len(state.jobs)]]


def state_of(state: State, planner: AnyPlanner) -> Any:
    """Return a copy of what a planner has kept; None if another version of it has."""
    kept = state.rule_states.get(("planner", planner.name))
    version = call_rule(_version_of, planner)
    return plain(kept.state) if kept is not None and kept.version == version else None


def remember(state: State, planner: AnyPlanner, kept: object, wake_at: object) -> None:
    """Save a planner's state, and have it called at `wake_at`. Raises `RuleFailed`."""
    key = ("planner", planner.name)
    version = call_rule(_version_of, planner)
    if type(version) is not int:
        raise RuleFailed(WrongAnswer("its version is not a whole number"))
    remembered = call_rule(plain, kept)
    wake_s = checked_wake(wake_at)
    if wake_s is not None:
        wake_s = max(wake_s, state.step.now.boot_s + SOONEST_WAKE_S)
    known = state.rule_states.get(key)
    if known is None and remembered is None and wake_s is None:
        return
    kept_before = (known.version, known.state, known.wake_boot_s) if known is not None else None
    if kept_before != (version, remembered, wake_s):
        state.put_rule_state(RuleState(*key, version, remembered, wake_s))
    if wake_s is not None:
        state.wake(Timer(wake_s, PLANNER + planner.name))


def is_wanted(state: State, timer: Timer) -> bool:
    """Return whether a timer is the last wake-up that its planner asked for."""
    kept = state.rule_states.get(("planner", timer.what.removeprefix(PLANNER)))
    at_once = timer.boot_s == AT_ONCE  # set by a restart
    return at_once or (kept is not None and kept.wake_boot_s == timer.boot_s)


def checked_wake(wake_at: object) -> float | None:
    """Return the boot time of a planner's wake-up; None: no wake-up. Raises `RuleFailed`."""
    if wake_at is None:
        return None
    if not isinstance(wake_at, (int, float)):
        raise RuleFailed(WrongAnswer(f"its wake_at is a {type(wake_at).__name__}, not a time"))
    wake_s = call_rule(float, wake_at)
    if isnan(wake_s):
        raise RuleFailed(WrongAnswer("its wake_at is NaN, not a time"))
    return None if wake_s == inf else wake_s


def explanation(
    view: View, planner: AnyPlanner, job: Job, question: str = "explain"
) -> tuple[tuple[Refusal, ...], BaseException | None]:
    """Return a planner's reasons why a job waits. If it cannot say: that, and its error.

    `question`: `why_size` asks for its reasons for the size of a running job, if it has any.
    """
    if not hasattr(planner, question):
        return (), None
    error: BaseException = WrongAnswer("its explanation is not made of refusals")
    try:
        found = call_rule(lambda: tuple(getattr(planner, question)(view, job)))
        if are_refusals(found):
            return found, None
    except RuleFailed as failed:
        error = failed.error
    why = f"the planner {planner.name} cannot say why: {error_line(error)}"
    return (Refusal("rule", why),), error
