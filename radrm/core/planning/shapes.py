"""Checks of the shape of a rule's answer, before any record holds a part of it.

Rules of third parties are not type-checked. A value of the wrong type would raise much later,
without a trace of its rule, so it is refused here. `constraints` decides whether a proposal
can be carried out.
"""

from __future__ import annotations

from typing import Any

from radrm.core.proposals import (
    Cancel,
    Migrate,
    Preempt,
    Proposal,
    Reserve,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
    Warn,
)
from radrm.core.records import Placement, Refusal, Share
from radrm.core.state.isolation import RuleFailed, WrongAnswer
from radrm.core.words import Collocation

MOST_STATE_NODES = 200_000
MOST_STATE_CHARACTERS = 4 * 2**20
MOST_STATE_DEPTH = 100
"""Limits of a rule's state, which each step that changes it saves."""
_MOST_INTEGER = 2**63
_MOST_AMOUNT = 2**50
"""Below this, amounts and their sums are exact as floats, too."""
MOST_WARNING = 300
"""Characters of each part of a warning."""

_KINDS = (
    *(Start, Preempt, TakeCheckpointNow, Migrate, ResizeTo, SetShares, Reserve),
    *(Cancel, Warn),
)


# ------------------------------------------------------------------ proposals


def checked_proposal(proposal: object) -> Proposal:
    """Return the proposal. Raises `RuleFailed` if it is none, or has a field of a wrong type."""
    # `type`, here and below: a subclass could override what the core calls.
    if type(proposal) not in _KINDS or not isinstance(proposal, Proposal):
        raise RuleFailed(WrongAnswer(f"it proposed a {type(proposal).__name__}"))
    wrong = None
    if type(proposal.job_id) is not int:
        wrong = "job_id"
    elif isinstance(proposal, (Start, Migrate, ResizeTo)) and not _is_placement(proposal.placement):
        wrong = "placement"
    elif isinstance(proposal, SetShares) and not _are_shares(proposal.shares):
        wrong = "shares"
    elif isinstance(proposal, (Preempt, Cancel)) and type(proposal.reason) is not str:
        wrong = "reason"
    elif isinstance(proposal, Warn):
        wrong = _wrong_in_warn(proposal)
    elif isinstance(proposal, Reserve):
        wrong = _wrong_in_reserve(proposal)
    if wrong is not None:
        kind = type(proposal).__name__
        raise RuleFailed(WrongAnswer(f"the {wrong} of its {kind} has the wrong type"))
    return proposal


def _wrong_in_reserve(found: Reserve) -> str | None:
    """Return the first field of a `Reserve` with a wrong type; None if all are right."""
    if type(found.devices) is not tuple or not all(map(_is_reserved_device, found.devices)):
        return "devices"
    return None if _is_finite(found.start_s) and _is_finite(found.end_s) else "interval"


def _wrong_in_warn(found: Warn) -> str | None:
    """Return the first field of a `Warn` with a wrong type; None if all are right."""
    for name in ("kind", "text", "does"):
        word = getattr(found, name)
        if type(word) is not str or len(word) > MOST_WARNING or not word.isprintable():
            return name
    return None if found.in_s is None or _is_finite(found.in_s) else "in_s"


def _is_reserved_device(found: object) -> bool:
    if type(found) is not tuple or len(found) != 2:
        return False
    return type(found[0]) is str and (found[1] is None or type(found[1]) is int)


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
        and _is_amount(found.reserved_mib)
        and type(found.node) is str
        and type(found.role) is str
        and type(found.task) is int
        and -_MOST_INTEGER <= found.task < _MOST_INTEGER
        and (found.memory_mib is None or _is_amount(found.memory_mib))
        and all(cap is None or _is_finite(cap) for cap in (found.sm_fraction, found.cpus))
        and (found.cpu_weight is None or _is_finite(found.cpu_weight))
        and (found.cpus is None or abs(found.cpus) < _MOST_AMOUNT)
    )


def _is_amount(number: object) -> bool:
    return type(number) is int and 0 <= number < _MOST_AMOUNT


def _is_finite(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    return number - number == 0  # `isfinite` raises for very large whole numbers


# ------------------------------------------------------------------ a rule's state


def plain(state: object) -> Any:
    """Return a copy of a rule's state, which the rule cannot change later.

    Raises `WrongAnswer` for a value that JSON cannot hold unchanged, and for too large a state.
    """
    if state is None or (type(state) is dict and not state):
        return None if state is None else {}
    budget = [MOST_STATE_NODES, MOST_STATE_CHARACTERS]
    return _plain(state, budget, 0)


def _plain(value: object, budget: list[int], depth: int) -> Any:
    budget[0] -= 1
    if type(value) is str:
        budget[1] -= len(value)
    if budget[0] < 0 or budget[1] < 0 or depth > MOST_STATE_DEPTH:
        raise WrongAnswer(
            f"its state is too large: more than {MOST_STATE_NODES} values, "
            f"{MOST_STATE_CHARACTERS} characters or {MOST_STATE_DEPTH} levels"
        )
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if type(value) is int and -_MOST_INTEGER <= value < _MOST_INTEGER:
        return value
    if type(value) is float and value - value == 0:
        return value
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return [_plain(each, budget, depth + 1) for each in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {
            _plain(key, budget, depth): _plain(each, budget, depth + 1)
            for key, each in value.items()
        }
    raise WrongAnswer(f"its state holds a {type(value).__name__} that JSON cannot hold as it is")


# ------------------------------------------------------------------ refusals


def are_refusals(found: object) -> bool:
    """Return whether an explanation is a sequence of refusals with fields of the right types."""
    return isinstance(found, (tuple, list)) and all(is_refusal(each) for each in found)


def is_refusal(found: object) -> bool:
    """Return whether a value is a refusal with fields of the right types."""
    if type(found) is not Refusal:
        return False
    needed, there, device = found.needed, found.available, found.device
    return (
        type(found.rule) is str
        and type(found.message) is str
        and (needed is None or isinstance(needed, (int, float)))
        and (there is None or isinstance(there, (int, float)))
        and (device is None or type(device) is str)
    )
