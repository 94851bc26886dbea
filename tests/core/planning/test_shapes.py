"""Which values of a rule the core takes: proposals, shares, refusals and a rule's own state."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from radrm.core.planning import shapes
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
from radrm.structs import replace

SHARE = Share(device="GPU-0", reserved_mib=1)
PLACEMENT = Placement((SHARE,), Collocation.TIMESLICE)
RESERVE = Reserve(job_id=1, devices=(("GPU-0", 5), ("GPU-1", None)), start_s=0.0, end_s=1)
WARN = Warn(job_id=1, kind="idle", text="it is idle", does="it is cancelled", in_s=60.0)


def other(found: Any, **changes: Any) -> Any:
    """The same with some fields of any type."""
    return replace(found, **changes)


class Own(Cancel, frozen=True, kw_only=True):
    """A proposal of a rule's own."""


@pytest.mark.parametrize(
    "proposal",
    [
        *(Start(job_id=1, placement=PLACEMENT), Migrate(job_id=1, placement=PLACEMENT)),
        *(ResizeTo(job_id=1, placement=PLACEMENT), SetShares(job_id=1, shares=(SHARE, SHARE))),
        *(Preempt(job_id=1), Cancel(job_id=1, reason="why"), TakeCheckpointNow(job_id=1)),
        *(RESERVE, replace(RESERVE, devices=()), WARN, Warn(job_id=1, kind="idle")),
        *(other(WARN, text="x" * 300), replace(WARN, in_s=0), replace(WARN, in_s=-1.5)),
    ],
)
def test_what_is_right_is_taken(proposal: Proposal) -> None:
    assert shapes.checked_proposal(proposal) is proposal


@pytest.mark.parametrize(
    ("proposal", "wrong"),
    [
        (Own(job_id=1, reason="x"), "it proposed a Own"),
        (None, "it proposed a NoneType"),
        (Proposal(job_id=1), "it proposed a Proposal"),
        (TakeCheckpointNow(job_id=True), "the job_id of its TakeCheckpointNow"),
        (Start(job_id=1, placement=None), "the placement of its Start"),
        (Migrate(job_id=1, placement="x"), "the placement of its Migrate"),
        (ResizeTo(job_id=1, placement=()), "the placement of its ResizeTo"),
        (SetShares(job_id=1, shares=[SHARE]), "the shares of its SetShares"),
        (Cancel(job_id=1, reason=None), "the reason of its Cancel"),
        (Preempt(job_id=1, reason=1), "the reason of its Preempt"),
        *((other(WARN, **{name: "x" * 301}), name) for name in ("kind", "text", "does")),
        *((other(WARN, **{name: "a\nb"}), name) for name in ("kind", "text", "does")),
        *((other(WARN, **{name: b"x"}), name) for name in ("kind", "text", "does")),
        *((other(WARN, in_s=what), "in_s") for what in ("x", inf, nan, True)),
        *((other(RESERVE, start_s=what), "interval") for what in (nan, -inf, None)),
        *((other(RESERVE, end_s=what), "interval") for what in (nan, inf, None)),
        *(
            (other(RESERVE, devices=what), "devices")
            for what in (
                *([("GPU-0", 5)], (("GPU-0", 5), ["GPU-1", 5]), (("GPU-0",),), ((0, 5),)),
                *((("GPU-0", 5.0),), (("GPU-0", True),), (("GPU-0", 5, 6),), ("GPU-0",)),
            )
        ),
    ],
)
def test_what_is_wrong_is_named(proposal: Any, wrong: str) -> None:
    with pytest.raises(RuleFailed, match=wrong):
        shapes.checked_proposal(proposal)


@pytest.mark.parametrize(
    "changes",
    [
        {"device": None},
        *({"reserved_mib": 0}, {"reserved_mib": 2**50 - 1}, {"memory_mib": 0}),
        *({"task": 2**63 - 1}, {"task": -(2**63)}, {"cpus": 1.0 - 2**50}, {"cpu_weight": 1}),
        *({"sm_fraction": 0.5}, {"cpus": 3}, {"memory_mib": 2**50 - 1}),
    ],
)
def test_a_share_within_all_bounds_is_right(changes: dict[str, Any]) -> None:
    share = replace(SHARE, **changes)
    assert shapes.checked_proposal(SetShares(job_id=1, shares=(share,)))


@pytest.mark.parametrize(
    "changes",
    [
        *({"device": 0}, {"reserved_mib": -1}, {"reserved_mib": 2**50}, {"reserved_mib": 1.0}),
        *({"reserved_mib": None}, {"reserved_mib": True}, {"node": None}, {"role": 1}),
        *({"task": 1.0}, {"task": True}, {"task": 2**63}, {"task": -(2**63) - 1}),
        *({"memory_mib": -1}, {"memory_mib": 1.0}, {"memory_mib": 2**50}),
        *({"sm_fraction": nan}, {"sm_fraction": "1"}, {"sm_fraction": True}, {"cpus": inf}),
        *({"cpus": -(2.0**50)}, {"cpus": 2**50}, {"cpus": 10**400}, {"cpu_weight": inf}),
        *({"cpu_weight": "1"}, {"cpu_weight": False}),
    ],
)
def test_a_share_with_one_wrong_field_is_wrong(changes: dict[str, Any]) -> None:
    for shares in ((replace(SHARE, **changes),), (SHARE, replace(SHARE, **changes))):
        with pytest.raises(RuleFailed, match="the shares"):
            shapes.checked_proposal(SetShares(job_id=1, shares=shares))
        placement = replace(PLACEMENT, shares=shares)
        with pytest.raises(RuleFailed, match="the placement"):
            shapes.checked_proposal(Start(job_id=1, placement=placement))


def test_a_placement_has_a_mode() -> None:
    placement = replace(PLACEMENT, collocation="timeslice")
    with pytest.raises(RuleFailed, match="the placement"):
        shapes.checked_proposal(Start(job_id=1, placement=placement))


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else 1


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        *((None, None), ({}, {}), ([], []), ((), []), (0, 0), (True, True), ("", "")),
        ({"a": (1, [2.5, None, False])}, {"a": [1, [2.5, None, False]]}),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        ("\ud800", "\\ud800"),
        ({"\ud800": 1}, {"\\ud800": 1}),
        (deep(shapes.MOST_STATE_DEPTH), deep(shapes.MOST_STATE_DEPTH)),
        ("x" * shapes.MOST_STATE_CHARACTERS, "x" * shapes.MOST_STATE_CHARACTERS),
        ([0] * (shapes.MOST_STATE_NODES - 1), [0] * (shapes.MOST_STATE_NODES - 1)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_state_that_json_can_hold_is_kept(state: Any, kept: Any) -> None:
    found = shapes.plain(state)
    assert found == kept and type(found) is type(kept)
    assert found is not state or not isinstance(state, (dict, list))


@pytest.mark.parametrize(
    "state",
    [
        *(2**63, -(2**63) - 1, inf, nan, b"x", {1: 2}, {None: 1}, [object()], {1, 2}),
        deep(shapes.MOST_STATE_DEPTH + 1),
        ["x" * (shapes.MOST_STATE_CHARACTERS - 1), {"xy": 1}],
        [0] * shapes.MOST_STATE_NODES,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_any_other_state_is_refused(state: Any) -> None:
    with pytest.raises(WrongAnswer):
        shapes.plain(state)


def test_refusals_have_fields_of_their_types() -> None:
    good = Refusal("rule", "why", "GPU-0", needed=1, available=2.5)
    assert shapes.are_refusals(()) and shapes.are_refusals([good, Refusal("rule", "why")])
    assert not shapes.are_refusals(None) and not shapes.are_refusals({good: 1})
    for changes in (
        *({"rule": 1}, {"message": None}, {"device": 0}, {"needed": "1"}, {"available": "1"}),
    ):
        wrong = other(good, **changes)
        assert not shapes.is_refusal(wrong) and not shapes.are_refusals((good, wrong))
    assert not shapes.is_refusal(("rule", "why"))
