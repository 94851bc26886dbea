"""Use a policy with checked answers, and another policy while the first one rests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from radrm.core.constraints.offers import Answers
from radrm.core.planning.assembly import Found, offers_by_role, place
from radrm.core.planning.shapes import is_refusal
from radrm.core.records import Job, Refusal
from radrm.core.rules import Ask, Policy
from radrm.core.state.isolation import RuleFailed as RuleFailed
from radrm.core.state.isolation import WrongAnswer, call_rule
from radrm.core.view import Offer, View


def find_with_fallback(
    view: View,
    policy: Policy,
    job: Job,
    policy_state: Any,
    fallback: Policy,
    only: str | None = None,
) -> Found:
    """Return a placement by `policy`, or by `fallback` while `policy` rests after a failure.

    `only`: use no other device.
    """
    name = policy.name
    if policy is fallback or not view.isolation.rests("policy", name):
        try:
            return _search(view, policy, job, policy_state, only)
        except RuleFailed as failed:
            used = f"{fallback.name} is used in its place" if policy is not fallback else "it waits"
            view.isolation.fail("policy", name, failed.error, used)
    if policy is fallback:
        refusal = Refusal("rule", f"the policy {name} has failed; it is tried again later")
        return Found(None, (refusal,), policy_state)
    found = find_with_fallback(view, fallback, job, None, fallback, only)
    return replace(found, policy_state=policy_state)


def _search(view: View, policy: Policy, job: Job, policy_state: Any, only: str | None) -> Found:
    """Return a placement by `policy`. Raises `RuleFailed`.

    A search that has failed is not made again while the offers are the same.
    """
    lacks = view.refuse_on_nodes(job)
    if lacks is not None:
        return Found(None, (lacks,), policy_state)
    answers, offers = view.answers, offers_by_role(view, job, only)
    why = answers.failure(policy, job, offers)
    if why is not None:
        return Found(None, why, policy_state, too_few=True)
    found = place(view, Checked(policy, answers), job, policy_state, offers)
    if found.too_few and only is None:
        answers.keep_failure(policy, job, offers, found.refusals)
    return found


class Checked:
    """A policy whose answers are checked. Its methods raise `RuleFailed` for a wrong answer."""

    def __init__(self, policy: Policy, answers: Answers) -> None:
        self._policy = policy
        self._answers = answers
        self.name = policy.name
        self.version = policy.version
        self.floor_mib, self.whole_device, self.overcommits = call_rule(_traits, policy)
        if type(self.floor_mib) is not int or self.floor_mib < 0:
            raise RuleFailed(WrongAnswer("its floor_mib is not a number of MiB"))
        if type(self.whole_device) is not bool:
            raise RuleFailed(WrongAnswer("its whole_device is neither true nor false"))
        if type(self.overcommits) is not bool:
            raise RuleFailed(WrongAnswer("its overcommits is neither true nor false"))

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        asked = ask.gpus, ask.need_mib
        known = self._answers.find(self._policy, ask.job, asked, offer)
        if known is not None:
            return known[0]
        refusal = call_rule(self._policy.refuse, ask, offer)
        if refusal is not None and not is_refusal(refusal):
            wrong = f"it refused a device with a {type(refusal).__name__}, not a Refusal"
            raise RuleFailed(WrongAnswer(wrong))
        self._answers.keep(self._policy, ask.job, asked, offer, refusal)
        return refusal

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        answer = call_rule(lambda: self._policy.choose(ask, eligible, state))
        if type(answer) is not tuple or len(answer) != 2:
            raise RuleFailed(WrongAnswer("it did not choose devices and a state"))
        chosen = call_rule(lambda: tuple(answer[0]))
        wrong = _wrong_choice(ask, eligible, chosen)
        if wrong is not None:
            raise RuleFailed(WrongAnswer(wrong))
        return chosen, answer[1]


def _traits(policy: Policy) -> tuple[int, bool, bool]:
    return policy.floor_mib, policy.whole_device, policy.overcommits


def _wrong_choice(ask: Ask, eligible: Sequence[Offer], chosen: Sequence[Offer]) -> str | None:
    """Return what is wrong with the chosen offers; None if nothing is."""
    offered = {id(offer) for offer in eligible}
    # Identity first: comparing offers field by field for each device is slow.
    if not all(id(offer) in offered or offer in eligible for offer in chosen):
        return "it chose a device that was not offered"
    if len({offer.device.uuid for offer in chosen}) != len(chosen):
        return "it chose a device twice"
    if len(chosen) != ask.gpus:
        return f"it chose {len(chosen)} devices where {ask.gpus} were asked for"
    return None
