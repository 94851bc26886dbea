"""Use a policy with checked answers, and another policy while the first one rests.

Theory of operation
-------------------
A policy is a rule of somebody else. So each answer is checked (`Checked`): a wrong one is a failure
(`RuleFailed`), and the policy rests. Meanwhile the fallback replaces it; while that rests, too, the
job waits.

Planners try the same jobs after almost every event. So a search that found too few devices is kept
(`Offers.failure`) and not made again while too few devices would take the job. Only the devices
that have changed are asked again, since each refuses by itself, for a job that has its GPUs for one
role. A search on some devices only (`only`), or in one mode, is not kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

from radrm.core.constraints.offers import Answers, Failure, OffersOfRole
from radrm.core.planning.assembly import Found, Placer
from radrm.core.planning.shapes import is_refusal
from radrm.core.records import Job, Refusal, Role
from radrm.core.rules import Ask, Policy
from radrm.core.state.isolation import RuleFailed as RuleFailed
from radrm.core.state.isolation import WrongAnswer, call_rule
from radrm.core.view import Offer, View
from radrm.core.words import Collocation
from radrm.structs import replace


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
            return _Search(view, policy, job, only, mode).find(policy_state)
        except RuleFailed as failed:
            used = f"{fallback.name} is used in its place" if policy is not fallback else "it waits"
            view.isolation.fail("policy", name, failed.error, used)
    if policy is fallback:
        refusal = Refusal("rule", f"the policy {name} has failed; it is tried again later")
        return Found(None, (refusal,), policy_state)
    found = find_with_fallback(view, fallback, job, None, fallback, only, mode)
    return replace(found, policy_state=policy_state)


class _Search(Struct):
    """A search by a policy that may fail or answer wrongly. Its methods raise `RuleFailed`."""

    view: View
    policy: Policy
    job: Job
    only: Collection[str] | None
    mode: Collocation | None

    def find(self, policy_state: Any) -> Found:
        """Return a placement, or why there is none. The result of a failed search is kept.

        Nothing is asked of the policy while the job could start on no device.
        """
        nowhere = self.view.refuse_start(self.job)
        if nowhere is not None:
            return Found(None, (nowhere,), policy_state)
        if self.only is None:
            known = self._failed_again()
            if known is not None:
                return Found(None, tuple(known.why), policy_state, too_few=True)
        checked = Checked(self.policy, self.view.answers)
        placer = Placer(self.view, checked, self.job, policy_state, self.only, self.mode)
        by_role = placer.offers()
        found = placer.place(by_role)
        if found.too_few and self.only is None and self.mode is None:
            self._keep_failure(checked, found.refusals, by_role)
        return found

    def _keep_failure(
        self, checked: Checked, why: Sequence[Refusal], by_role: Sequence[OffersOfRole]
    ) -> None:
        searches, job = self.view.searches, self.job
        known = searches.keep_failure(self.policy, job, [role for role, _ in by_role], why)
        if known.role is None:
            return
        ((role, offers),) = by_role
        refusals: Sequence[Refusal | None] = why
        if job.gpus > 1:  # these may be of another mode
            ask = Ask(job, job.gpus, self.view.need_mib(job, role))
            refusals = [offer.refusal or checked.refuse(ask, offer) for offer in offers]
        steady = checked.steady_for(job, role)
        for at, offer in enumerate(offers):
            searches.renew(known, at, offer, refusals[at], steady)
        known.old.clear()

    def _failed_again(self) -> Failure | None:
        """Return the last search, with its present reasons, if it found too few devices and does so
        now; None: it may not."""
        known = self.view.searches.failure(self.policy, self.job)
        if known is None:
            return None
        unsure = self.view.searches.unsure(known, words=True)
        # With several devices the reasons are not one for each of them.
        if unsure and (known.wanted > 1 or not self.refuse_again(known, unsure)):
            return None
        return known

    def refuse_again(self, known: Failure, places: Collection[int]) -> bool:
        """Ask these devices again. Return whether too few take the job still."""
        view, job, role = self.view, self.job, known.role
        if role is None:
            return False
        ask = Ask(job, job.gpus, view.need_mib(job, role))
        checked = Checked(self.policy, view.answers)
        steady = checked.steady_for(job, role)
        for at in places:
            offer = view.offer(job, role, known.listed[at].uuid)
            refusal = offer.refusal or checked.refuse(ask, offer)
            if not view.searches.renew(known, at, offer, refusal, steady):
                return False
        view.searches.settle(known)
        return True


def fails_again(view: View, policy: Policy, job: Job) -> bool:
    """Return whether the last search for a job failed, and a search would fail now. It asks less
    than a search. False where that is not known."""
    known = view.searches.failure(policy, job)
    if known is None or view.isolation.rests("policy", policy.name):
        return False
    unsure = view.searches.unsure(known, words=False)
    try:
        return not unsure or _Search(view, policy, job, None, None).refuse_again(known, unsure)
    except RuleFailed:
        return False  # the search reports it


class Checked:
    """A policy whose answers are checked. Its methods raise `RuleFailed` for a wrong answer."""

    def __init__(self, policy: Policy, answers: Answers) -> None:
        self._policy = policy
        self._answers = answers
        self.name = policy.name
        self.version = policy.version
        traits = call_rule(_traits, policy)
        self.floor_mib, self.whole_device, self.overcommits, steady = traits
        self.steady_refusals: frozenset[str]
        self.steady_refusals = steady if type(steady) is frozenset else frozenset()
        if type(self.floor_mib) is not int or self.floor_mib < 0:
            raise RuleFailed(WrongAnswer("its floor_mib is not a number of MiB"))
        if type(self.whole_device) is not bool:
            raise RuleFailed(WrongAnswer("its whole_device is neither true nor false"))
        if type(self.overcommits) is not bool:
            raise RuleFailed(WrongAnswer("its overcommits is neither true nor false"))

    def steady_for(self, job: Job, role: Role) -> frozenset[str]:
        """Return the rules of the refusals that last while a device lacks memory for this."""
        known = role.needs.gpu_memory_mib is not None or job.need_mib is not None
        return self.steady_refusals if known else frozenset()

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
    for occupant in offer.occupants:
        client = occupant.attempt.placement.collocation is Collocation.MPS
        if client and occupant.job.spec.uid != job.spec.uid:
            whose = f"time-sliced beside MPS client {occupant.job.label} of another user"
            return replace(refusal, message=f"{whose}: {refusal.message}")
    return refusal


def _traits(policy: Policy) -> tuple[int, bool, bool, object]:
    steady = getattr(policy, "steady_refusals", None)
    return policy.floor_mib, policy.whole_device, policy.overcommits, steady


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
