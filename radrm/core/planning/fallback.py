"""A policy's choice, checked; where the policy fails, that of another in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from radrm.core.planning.assembly import Found, find_placement
from radrm.core.records import Job, Refusal
from radrm.core.rules import Ask, Policy
from radrm.core.state.isolation import RuleFailed, WrongAnswer, asked, is_refusal
from radrm.core.view import Offer, View


def find_or_instead(
    view: View,
    policy: Policy,
    job: Job,
    policy_state: Any,
    instead: Policy,
    only: str | None = None,
) -> Found:
    """A placement by `policy`, or by `instead` while that rests for having failed. `only`: no
    other device will do."""
    name = policy.name
    if policy is instead or not view.isolation.rests("policy", name):
        try:
            return find_placement(view, Checked(policy), job, policy_state, only)
        except RuleFailed as failed:
            used = f"{instead.name} is used in its place" if policy is not instead else "it waits"
            view.isolation.fail("policy", name, failed.error, used)
    if policy is instead:
        refusal = Refusal("rule", f"the policy {name} has failed; it is asked again later")
        return Found(None, (refusal,), policy_state)
    found = find_or_instead(view, instead, job, None, instead, only)
    return replace(found, policy_state=policy_state)


class Checked:
    """A policy whose answers have the shape that was agreed, or raise `RuleFailed`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.version = policy.version
        self.floor_mib = asked(lambda: policy.floor_mib)
        self.whole_device = asked(lambda: policy.whole_device)
        self.overcommits = asked(lambda: bool(getattr(policy, "overcommits", False)))
        if type(self.floor_mib) is not int or self.floor_mib < 0:
            raise RuleFailed(WrongAnswer("its floor_mib is not a number of MiB"))
        if type(self.whole_device) is not bool:
            raise RuleFailed(WrongAnswer("its whole_device is neither true nor false"))

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        refusal = asked(lambda: self._policy.refuse(ask, offer))
        if refusal is not None and not is_refusal(refusal):
            wrong = f"it refused a device with a {type(refusal).__name__}, not a Refusal"
            raise RuleFailed(WrongAnswer(wrong))
        return refusal

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        answer = asked(lambda: self._policy.choose(ask, eligible, state))
        if type(answer) is not tuple or len(answer) != 2:
            raise RuleFailed(WrongAnswer("it did not choose devices and a state"))
        chosen = asked(lambda: tuple(answer[0]))
        wrong = _misfit(ask, eligible, chosen)
        if wrong is not None:
            raise RuleFailed(WrongAnswer(wrong))
        return chosen, answer[1]


def _misfit(ask: Ask, eligible: Sequence[Offer], chosen: Sequence[Offer]) -> str | None:
    offered = {id(offer) for offer in eligible}
    if not all(id(offer) in offered or offer in eligible for offer in chosen):
        return "it chose a device that was not offered"
    if len({offer.device.uuid for offer in chosen}) != len(chosen):
        return "it chose a device twice"
    if len(chosen) != ask.gpus:
        return f"it chose {len(chosen)} devices where {ask.gpus} were asked for"
    return None
