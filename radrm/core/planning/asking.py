"""How planners are asked: what they propose is drawn piece by piece, and never trusted."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from radrm.core.events import Event
from radrm.core.proposals import (
    Hopeless,
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
)
from radrm.core.records import Job, Placement, Refusal, RuleState, Share
from radrm.core.rules import Plan, Planner
from radrm.core.state.isolation import RuleFailed, WrongAnswer, are_refusals, asked, plain
from radrm.core.state.state import State, Timer
from radrm.core.view import View
from radrm.core.words import Collocation

PLANNER = "planner:"
MOST_PROPOSALS = 2000
"""So many more than there are jobs may one answer hold: some generators never end."""
SOONEST_WAKE_S = 0.1
"""No planner is called again earlier: one that always asks for now would be called for ever."""

_END = object()
_KINDS = (Start, Preempt, TakeCheckpointNow, Migrate, ResizeTo, SetShares, Hopeless)


def proposals(state: State, view: View, planner: Planner, event: Event) -> Iterator[Proposal]:
    """What a planner proposes, each to be carried out before the next is drawn; in the end its
    state is kept. Raises `RuleFailed`; what was proposed before that stands."""
    key = ("planner", planner.name)
    kept = state.rule_states.get(key)
    usable = kept is not None and kept.version == planner.version
    before = plain(kept.state) if kept and usable else None
    plan = asked(lambda: planner.plan(view, event, before))
    if not isinstance(plan, Plan):
        raise RuleFailed(WrongAnswer(f"it answered with a {type(plan).__name__}, not a Plan"))
    drawn = asked(lambda: iter(plan.proposals))
    most = MOST_PROPOSALS + len(state.jobs)
    for count in range(most + 1):
        proposal = asked(lambda: next(drawn, _END))
        if proposal is _END:
            break
        if count == most:
            raise RuleFailed(WrongAnswer(f"it proposed more than {most} things at once"))
        yield of_right_shape(proposal)
    remembered = asked(lambda: plain(plan.state))
    wake_s = _wake_s(plan.wake_at, state.turn.now.boot_s)
    if remembered is not None or wake_s is not None or kept is not None:
        state.put_rule_state(RuleState(*key, planner.version, remembered, wake_s))
    if wake_s is not None:
        state.wake(Timer(wake_s, PLANNER + planner.name))


def is_wanted(state: State, timer: Timer) -> bool:
    """Whether a planner's wake-up is the last that it asked for."""
    kept = state.rule_states.get(("planner", timer.what.removeprefix(PLANNER)))
    at_once = timer.boot_s == float("-inf")
    return at_once or (kept is not None and kept.wake_boot_s == timer.boot_s)


def _wake_s(wake_at: object, now_s: float) -> float | None:
    if wake_at is None or wake_at == float("inf"):
        return None
    if not isinstance(wake_at, (int, float)) or isnan(wake_at):
        raise RuleFailed(WrongAnswer(f"its wake_at is {wake_at!r:.40}, not a time"))
    return max(float(wake_at), now_s + SOONEST_WAKE_S)


def explanation(view: View, planner: Planner, job: Job) -> tuple[Refusal, ...]:
    """Why a job waits, by its planner's word."""
    try:
        found = asked(lambda: tuple(planner.explain(view, job)))
        if are_refusals(found):
            return found
        wrong = "its explanation is not made of refusals"
    except RuleFailed as failed:
        wrong = str(failed)
    return (Refusal("rule", f"the planner {planner.name} cannot say why: {wrong}"),)


# ------------------------------------------------------------------ shapes


def of_right_shape(proposal: object) -> Proposal:
    """The proposal. Raises `RuleFailed` for what is none, or holds what no record can hold;
    whether it may be carried out is for `validation` to say."""
    if type(proposal) not in _KINDS or not isinstance(proposal, Proposal):
        raise RuleFailed(WrongAnswer(f"it proposed a {type(proposal).__name__}"))
    wrong = None
    if type(proposal.job_id) is not int:
        wrong = "job_id"
    elif isinstance(proposal, (Start, Migrate, ResizeTo)) and not _is_placement(proposal.placement):
        wrong = "placement"
    elif isinstance(proposal, SetShares) and not _are_shares(proposal.shares):
        wrong = "shares"
    elif isinstance(proposal, Hopeless) and type(proposal.reason) is not str:
        wrong = "reason"
    if wrong is not None:
        kind = type(proposal).__name__
        raise RuleFailed(WrongAnswer(f"the {wrong} of its {kind} is not what it has to be"))
    return proposal


def _is_placement(found: object) -> bool:
    if not isinstance(found, Placement) or not isinstance(found.collocation, Collocation):
        return False
    return type(found) is Placement and _are_shares(found.shares)


def _are_shares(found: object) -> bool:
    return type(found) is tuple and all(_is_share(share) for share in found)


def _is_share(found: object) -> bool:
    return (
        type(found) is Share
        and (found.device is None or type(found.device) is str)
        and type(found.reserved_mib) is int
        and type(found.node) is str
        and type(found.role) is str
        and type(found.task) is int
        and all(cap is None or _is_finite(cap) for cap in (found.sm_fraction, found.cpus))
    )


def _is_finite(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    return number - number == 0  # unlike `isfinite`, it takes a whole number of any size
