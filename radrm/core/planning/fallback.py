"""Use a policy with checked answers, and another policy while the first one rests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from radrm.core.constraints.offers import Answers, Failure
from radrm.core.planning.assembly import Found, offers_by_role, place
from radrm.core.planning.shapes import is_refusal
from radrm.core.records import Job, Refusal
from radrm.core.rules import Ask, Policy
from radrm.core.state.isolation import RuleFailed as RuleFailed
from radrm.core.state.isolation import WrongAnswer, call_rule
from radrm.core.view import Offer, View
from radrm.core.words import Collocation


def find_with_fallback(
    view: View,
    policy: Policy,
    job: Job,
    policy_state: Any,
    fallback: Policy,
    only: Collection[str] | None = None,
    mode: Collocation | None = None,
) -> Found:
    """Return a placement by `policy`, or by `fallback` while `policy` rests after a failure.

    `only`: use no other devices. `mode`: share them in this mode and no other.
    """
    name = policy.name
    if policy is fallback or not view.isolation.rests("policy", name):
        try:
            return _search(view, policy, job, policy_state, only, mode)
        except RuleFailed as failed:
            used = f"{fallback.name} is used in its place" if policy is not fallback else "it waits"
            view.isolation.fail("policy", name, failed.error, used)
    if policy is fallback:
        refusal = Refusal("rule", f"the policy {name} has failed; it is tried again later")
        return Found(None, (refusal,), policy_state)
    found = find_with_fallback(view, fallback, job, None, fallback, only, mode)
    return replace(found, policy_state=policy_state)


def _search(
    view: View,
    policy: Policy,
    job: Job,
    policy_state: Any,
    only: Collection[str] | None,
    mode: Collocation | None,
) -> Found:
    """Return a placement by `policy`. Raises `RuleFailed`.

    A search that has failed is not made again while it would fail for the same reasons.
    """
    nowhere = view.refuse_start(job)
    if nowhere is not None:
        return Found(None, (nowhere,), policy_state)
    known = view.searches.failure(policy, job) if only is None else None
    if known is not None and _fails_again(view, policy, job, known):
        return Found(None, tuple(known.why), policy_state, too_few=True)
    by_role = offers_by_role(view, job, only)
    found = place(view, Checked(policy, view.answers), job, policy_state, by_role, mode)
    if found.too_few and only is None:
        offers = [offer for _, some in by_role for offer in some]
        kept = view.searches.keep_failure(policy, job, found.refusals, offers)
        steady, lasting = _steady(policy), True
        for at, offer in enumerate(offers):
            # With several devices a refusal may be of another mode than the offer.
            alone = job.gpus == 1 and _is_steady(offer, found.refusals[at], steady)
            lasting &= view.searches.renew(kept, at, offer, alone)
        view.searches.settle(kept, lasting)
    return found


def _fails_again(view: View, policy: Policy, job: Job, known: Failure) -> bool:
    """Return whether a search that has failed fails now, too. Raises `RuleFailed`."""
    changed = view.searches.outdated(known)
    if not changed:
        return True
    if job.gpus != 1:
        return False
    # For one device each refuses by itself, so only those that have changed are asked.
    role = next(role for role in job.spec.roles if job.count(role) * role.needs.gpus)
    ask, checked = Ask(job, 1, view.need_mib(job, role)), Checked(policy, view.answers)
    steady, lasting = _steady(policy), True
    for at in changed:
        offer = view.offer(job, role, known.devices[at][2].device.uuid)
        refusal = offer.refusal or checked.refuse(ask, offer)
        if refusal is None:
            return False
        known.why[at] = refusal
        lasting &= view.searches.renew(known, at, offer, _is_steady(offer, refusal, steady))
    view.searches.settle(known, lasting)
    return True


def _is_steady(offer: Offer, refusal: Refusal, steady: frozenset[str]) -> bool:
    """Return whether a device refuses whatever its SM activity and the holders' records are."""
    return offer.refusal is not None or refusal.rule in steady


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
        if refusal is not None and offer.mode is Collocation.TIMESLICE:
            refusal = _beside_clients(ask.job, offer, refusal)
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


def _beside_clients(job: Job, offer: Offer, refusal: Refusal) -> Refusal:
    """Return a policy's refusal, which says so if the job would share with another user's clients.

    Its user sees MPS on this GPU, and no reason why the job would be time-sliced.
    """
    for holder in offer.holders:
        client = holder.attempt.placement.collocation is Collocation.MPS
        if client and holder.job.spec.uid != job.spec.uid:
            whose = f"time-sliced beside MPS client {holder.job.label} of another user"
            return replace(refusal, message=f"{whose}: {refusal.message}")
    return refusal


def _traits(policy: Policy) -> tuple[int, bool, bool]:
    return policy.floor_mib, policy.whole_device, policy.overcommits


def _steady(policy: Policy) -> frozenset[str]:
    """Return the rules of a policy's steady refusals. Raises `RuleFailed`."""
    found = call_rule(getattr, policy, "steady_refusals", None)
    return found if type(found) is frozenset else frozenset()


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
