"""From a policy's choice of devices to a placement, and to refusals with numbers.

Shared by every planner that asks a policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Job, Placement, Refusal, Share
from radrm.core.rules import Ask, Policy
from radrm.core.view import Offer, View
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class Found:
    """A placement and the policy's new state, or the refusals that stand in the way."""

    placement: Placement | None
    refusals: tuple[Refusal, ...]
    policy_state: Any


def find_placement(view: View, policy: Policy, job: Job, policy_state: Any) -> Found:
    """Ask `policy` for the devices of `job` at its smallest size: all of them or none."""
    shares: list[Share] = []
    refusals: list[Refusal] = []
    taken: set[str] = set()
    mode = Collocation.EXCLUSIVE
    for role in job.spec.roles:
        needs, wanted = role.needs, role.count_min * role.needs.gpus
        if wanted == 0:
            shares += [_cpu_share(role.name, t, needs.cpus) for t in range(role.count_min)]
            continue
        need = view.need_mib(job, role)
        ask = Ask(job=job, gpus=wanted, need_mib=need)
        eligible: list[Offer] = []
        for offer in view.offers(job, role):
            refusal = offer.refusal or policy.refuse(ask, offer)
            if refusal is not None:
                refusals.append(refusal)
            elif offer.device.uuid not in taken:
                eligible.append(offer)
        chosen, policy_state = _choose_alike(policy, ask, eligible, policy_state)
        if not chosen:
            refusals.append(
                Refusal("count", "not enough devices can take it now", None, wanted, len(eligible))
            )
            return Found(None, tuple(refusals), policy_state)
        mode = _mode(policy, chosen[0])
        for number, offer in enumerate(chosen):
            taken.add(offer.device.uuid)
            shares.append(
                Share(
                    device=offer.device.uuid,
                    node=offer.device.node,
                    reserved_mib=_promise(view, policy, job, need, offer),
                    role=role.name,
                    task=number // needs.gpus,
                    cpus=needs.cpus,
                )
            )
    return Found(Placement(shares=tuple(shares), collocation=mode), tuple(refusals), policy_state)


def _cpu_share(role: str, task: int, cpus: float | None) -> Share:
    return Share(device=None, role=role, task=task, cpus=cpus)


def _mode(policy: Policy, offer: Offer) -> Collocation:
    if policy.whole_device and not offer.mode.whole_device:
        return Collocation.EXCLUSIVE
    return offer.mode


def _promise(view: View, policy: Policy, job: Job, need: int | None, offer: Offer) -> int:
    if _mode(policy, offer).whole_device:
        return offer.device.capacity_mib
    if need is None:
        return min(policy.floor_mib, offer.device.capacity_mib)
    if offer.mode is Collocation.MPS and not job.declared:
        return _stretched(need, offer.free_mib or 0, view.settings.stretch, policy.floor_mib)
    return need


def _stretched(need: int, free_mib: int, times: float, floor_mib: int) -> int:
    """The promise for an estimated need. It becomes the cap of an MPS client, which dies there
    if the estimate was too low, however much is free: so half of what nobody else has been
    promised is lent to it until it has settled."""
    most = max(need * times, floor_mib) if times > 1.0 else need
    return int(max(need, min(most, need + (free_mib - need) // 2)))


def _choose_alike(
    policy: Policy, ask: Ask, eligible: Sequence[Offer], state: Any
) -> tuple[Sequence[Offer], Any]:
    """The policy's choice among devices that share in one way: a placement has one mode."""
    if ask.gpus == 1 and eligible:
        return policy.choose(ask, eligible, state)
    for mode in dict.fromkeys(offer.mode for offer in eligible):
        alike = [offer for offer in eligible if offer.mode is mode]
        if len(alike) >= ask.gpus:
            return policy.choose(ask, alike, state)
    return (), state
