"""From a policy's choice of devices to a placement, and to refusals with numbers.

Shared by every planner that asks a policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Job, Placement, Refusal, Role, Share
from radrm.core.rules import Ask, Policy
from radrm.core.validation import can_be_time_sliced
from radrm.core.view import Offer, View
from radrm.core.words import Collocation, Queue


@dataclass(frozen=True, slots=True)
class Found:
    """A placement and the policy's new state, or the refusals that stand in the way."""

    placement: Placement | None
    refusals: tuple[Refusal, ...]
    policy_state: Any


def find_placement(
    view: View, policy: Policy, job: Job, policy_state: Any, only: str | None = None
) -> Found:
    """Ask `policy` for the devices of `job` at its smallest size: all of them or none.

    A placement has one way of sharing. A job on several devices gets devices that it would
    share alike; where there are not enough of those, it is time-sliced on all, also on those
    where it could be an MPS client. `only`: no other device will do.
    """
    asked = _asked(view, job, only)
    modes = [None] if job.spec.gpus == 1 else _modes(policy, job, asked)
    tried: list[Found] = []
    for mode in modes or [None]:
        tried.append(_find(view, policy, job, policy_state, asked, mode))
        if tried[-1].placement is not None:
            return tried[-1]
    # The one that tells of the most devices.
    return max(tried, key=lambda found: len(found.refusals))


_Asked = Sequence[tuple[Role, Sequence[Offer]]]


def _asked(view: View, job: Job, only: str | None) -> _Asked:
    """Each role that wants devices, with all of them as the job would find them."""
    return [
        (role, [o for o in view.offers(job, role) if only is None or o.device.uuid == only])
        for role in job.spec.roles
        if role.count_min * role.needs.gpus
    ]


def _modes(policy: Policy, job: Job, asked: _Asked) -> list[Collocation | None]:
    """The ways of sharing to try, those of more of the devices that take the job first."""
    offers = [offer for _, offers in asked for offer in offers]
    often = Counter(_mode(policy, offer) for offer in offers if offer.refusal is None)
    modes: list[Collocation | None] = [*sorted(often, key=lambda mode: -often[mode])]
    if any(can_be_time_sliced(job, _mode(policy, offer)) for offer in offers):
        modes = [*(m for m in modes if m is not Collocation.TIMESLICE), Collocation.TIMESLICE]
    return modes


def _find(
    view: View,
    policy: Policy,
    job: Job,
    policy_state: Any,
    asked: _Asked,
    mode: Collocation | None,
) -> Found:
    """A placement in this way of sharing; None: as the devices have it."""
    shares = [
        _cpu_share(role.name, task, role.needs.cpus)
        for role in job.spec.roles
        for task in range(role.count_min * (role.needs.gpus == 0))
    ]
    refusals: list[Refusal] = []
    taken: set[str] = set()
    found = Collocation.EXCLUSIVE
    for role, offers in asked:
        need = view.need_mib(job, role)
        ask = Ask(job=job, gpus=role.count_min * role.needs.gpus, need_mib=need)
        eligible: list[Offer] = []
        for offer in _alike(view, policy, job, role, offers, mode):
            refusal = offer.refusal or policy.refuse(ask, offer)
            if refusal is not None:
                refusals.append(refusal)
            elif offer.device.uuid not in taken:
                eligible.append(offer)
        if len(eligible) < ask.gpus:
            refusals.append(
                Refusal(
                    "count", "not enough devices can take it now", None, ask.gpus, len(eligible)
                )
            )
            return Found(None, tuple(refusals), policy_state)
        chosen, policy_state = policy.choose(ask, eligible, policy_state)
        found = _mode(policy, chosen[0])
        for number, offer in enumerate(chosen):
            taken.add(offer.device.uuid)
            shares.append(
                Share(
                    device=offer.device.uuid,
                    node=offer.device.node,
                    reserved_mib=_promise(view, policy, job, need, offer),
                    role=role.name,
                    task=number // role.needs.gpus,
                    cpus=role.needs.cpus,
                )
            )
    return Found(Placement(shares=tuple(shares), collocation=found), tuple(refusals), policy_state)


def _alike(
    view: View,
    policy: Policy,
    job: Job,
    role: Role,
    offers: Sequence[Offer],
    mode: Collocation | None,
) -> Iterator[Offer]:
    """The devices that can be shared in this way, as the job would then find them."""
    for offer in offers:
        natural = _mode(policy, offer)
        if mode is None or natural is mode:
            yield offer
        elif mode is Collocation.TIMESLICE and can_be_time_sliced(job, natural):
            yield view.offer(job, role, offer.device.uuid, mode)
        elif offer.refusal is not None:
            yield offer  # to say why


def _cpu_share(role: str, task: int, cpus: float | None) -> Share:
    return Share(device=None, role=role, task=task, cpus=cpus)


def _mode(policy: Policy, offer: Offer) -> Collocation:
    if policy.whole_device and not offer.mode.whole_device:
        return Collocation.EXCLUSIVE
    return offer.mode


def _promise(view: View, policy: Policy, job: Job, need: int | None, offer: Offer) -> int:
    if _mode(policy, offer).whole_device or job.queue is Queue.RECOVERY:
        # A recovered job's is its device's until its memory has settled.
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
