"""From a policy's devices to a placement: near ones, and nodes for tasks without a GPU.

The policy chooses first, without regard to nearness. If all that it chose are idle and of one
type, every other idle eligible device of that type is as good: small differences between idle
devices do not count. Then the policy chooses again, from one group of such devices:

1. linked by NVLink and on one NUMA node; else
2. linked by NVLink; else
3. below one PCIe switch; else
4. below one PCIe host bridge; else
5. on one NUMA node.

Of several groups with enough devices it gets the smallest, so that large ones stay for wider
jobs. If no group has enough, or the policy chose busy devices, the first choice stands.

In a mesh, as in a DGX-1, not all GPUs are linked, and some by more links than others. A group is
then a set of GPUs each of which is linked to each; those with the most links come first.

A task on a GPU is on its GPU's node. With one node there is nothing to choose.

Every planner that uses a policy shares this. Of the devices that the core and the policy accept,
those that suit the job best come first (`View.rank`); the policy chooses among equals. A job on
several devices gets idle ones that are near each other (`near`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

from radrm.core.constraints.fit import can_be_time_sliced
from radrm.core.constraints.kinds import Rank, shortage_of
from radrm.core.constraints.offers import OffersOfRole
from radrm.core.records import LOCAL_NODE, Device, Job, NodeUse, Placement, Refusal, Role, Share
from radrm.core.rules import Ask, Policy
from radrm.core.view import Offer, View
from radrm.core.words import Collocation

_LEVELS: tuple[Callable[[Device], tuple[int | None, ...]], ...] = (
    lambda device: (device.nvlink_group, device.numa_node),
    lambda device: (device.nvlink_group,),
    lambda device: (device.pcie_switch,),
    lambda device: (device.host_bridge,),
    lambda device: (device.numa_node,),
)
_MOST_MESHED = 16
"""GPUs of a mesh that are compared. It has at most 3^(16/3) groups, about 350."""


def find_near(chosen: Sequence[Offer], eligible: Sequence[Offer]) -> Sequence[Offer] | None:
    """Return the devices from which the policy chooses again; None: its first choice stands."""
    if len(chosen) < 2 or not any(_is_known(offer.device) for offer in eligible):
        return None
    first, wanted = chosen[0], _type(chosen[0])
    if not all(offer.idle and _type(offer) == wanted for offer in chosen):
        return None
    equals = [offer for offer in eligible if offer.idle and _type(offer) == wanted]
    for groups in _levels(equals):
        enough = [group for group in groups if len(group) >= len(chosen)]
        if enough:
            found = min(enough, key=lambda group: (len(group), first not in group))
            return found if len(found) < len(equals) else None
    return None


def _levels(equals: Sequence[Offer]) -> Iterator[list[list[Offer]]]:
    """Yield the groups of each level, the nearest devices first."""
    meshed = [offer for offer in equals if offer.device.nvlinks]
    if 1 < len(meshed) <= _MOST_MESHED:
        yield from _meshes(meshed)
    for level in _LEVELS:
        groups: dict[Hashable, list[Offer]] = {}
        for offer in equals:
            place = level(offer.device)
            if None not in place:
                groups.setdefault((offer.device.node, place), []).append(offer)
        yield list(groups.values())


def _meshes(meshed: Sequence[Offer]) -> Iterator[list[list[Offer]]]:
    """Yield the groups of GPUs with at least so many links between each two: on one NUMA node,
    then on any."""
    links = {(at, peer): n for at, o in enumerate(meshed) for peer, n in o.device.nvlinks}
    for least in sorted(set(links.values()), reverse=True):
        for near in (True, False):
            peers: dict[int, set[int]] = {
                at: {
                    there
                    for there, other in enumerate(meshed)
                    if links.get((at, other.device.index), 0) >= least
                    and _together(offer.device, other.device, near)
                }
                for at, offer in enumerate(meshed)
            }
            yield [[meshed[at] for at in sorted(group)] for group in _cliques(peers)]


def _together(one: Device, other: Device, near: bool) -> bool:
    """Whether two devices are in one server, and on one NUMA node if `near`."""
    if one.node != other.node:
        return False
    return not near or (one.numa_node is not None and one.numa_node == other.numa_node)


def _cliques(peers: Mapping[int, set[int]]) -> Iterator[set[int]]:
    """Yield each largest set of nodes of a graph in which all are peers.

    Bron and Kerbosch, "Algorithm 457" (Communications of the ACM, 1973), with a pivot.
    """

    def grow(found: set[int], open_: set[int], done: set[int]) -> Iterator[set[int]]:
        if not open_ and not done:
            yield found
            return
        pivot = max(open_ | done, key=lambda at: len(peers[at] & open_))
        for at in sorted(open_ - peers[pivot]):
            yield from grow(found | {at}, open_ & peers[at], done & peers[at])
            open_, done = open_ - {at}, done | {at}

    yield from grow(set(), set(peers), set())


def _is_known(device: Device) -> bool:
    if device.nvlink_group is not None or device.numa_node is not None or device.nvlinks:
        return True
    return device.pcie_switch is not None or device.host_bridge is not None


def _type(offer: Offer) -> Hashable:
    return offer.device.name, offer.device.total_mib, offer.mode


def put_on_nodes(view: View, shares: Sequence[Share], beside: Iterable[Share]) -> list[Share]:
    """Return the shares of tasks without a GPU, each on a node.

    `beside`: shares of the same job that are not booked yet. Their nodes come first, then those
    with the most free CPUs. A task goes to the first one with room beside the tasks before it. If
    none has room, it goes to the first of all: the check of the placement tells what lacks.
    """
    known = view.nodes()
    others = list(beside)
    if len(known) < 2:
        name = known[0].node.name if known else others[0].node if others else LOCAL_NODE
        return [replace(share, node=name) for share in shares]
    near = {share.node for share in others if share.device is not None}
    order = sorted(known, key=lambda use: (use.node.name not in near, -_cpus(use), use.node.name))
    tasks = {(share.role, share.task): share for share in others}
    found: list[Share] = []
    for share in shares:
        fitting = (u for u in order if _has_room(u, share, [*tasks.values(), *found]))
        use = next(fitting, order[0])
        found.append(replace(share, node=use.node.name))
    return found


def _cpus(use: NodeUse) -> float:
    return float("inf") if use.cpus_free is None else use.cpus_free


def _has_room(use: NodeUse, share: Share, beside: Iterable[Share]) -> bool:
    """Return whether a node has room for a task beside these tasks of the job."""
    here = [share, *(each for each in beside if each.node == use.node.name)]
    cpus, mib = sum(s.cpus or 0.0 for s in here), sum(s.memory_mib or 0 for s in here)
    enough = use.cpus_free is None or cpus <= use.cpus_free
    return enough and (use.memory_free_mib is None or mib <= use.memory_free_mib)


@dataclass(frozen=True, slots=True)
class Found:
    """A placement, or None with the refusals; and the policy's new state.

    `too_few`: there is none because too few devices were accepted, whatever else is booked.
    """

    placement: Placement | None
    refusals: tuple[Refusal, ...]
    policy_state: Any
    too_few: bool = False


def find_placement(
    view: View, policy: Policy, job: Job, policy_state: Any, only: Collection[str] | None = None
) -> Found:
    """Return a placement of `job` at its smallest size, on devices that `policy` chooses.

    A placement has one collocation mode. A job on several devices gets devices with the same
    mode. If these are too few, it is time-sliced on all, also where it could be an MPS client.
    `only`: use no other devices.
    """
    nowhere = view.refuse_start(job)
    if nowhere is not None:
        return Found(None, (nowhere,), policy_state)
    return place(view, policy, job, policy_state, offers_by_role(view, job, only))


def offers_by_role(
    view: View, job: Job, only: Collection[str] | None = None
) -> Sequence[OffersOfRole]:
    """Return each role that needs devices, with the offers of all devices, or of `only` these."""
    return [
        (role, _offers(view, job, role, only))
        for role in job.spec.roles
        if job.count(role) * role.needs.gpus
    ]


def place(
    view: View,
    policy: Policy,
    job: Job,
    policy_state: Any,
    by_role: Sequence[OffersOfRole],
    only_mode: Collocation | None = None,
) -> Found:
    """Return a placement of `job` among these offers; `only_mode`: in no other mode.

    If the nodes of the devices that the policy chooses have too few CPUs or too little memory, each
    node is tried alone.
    """
    found = _place(view, policy, job, policy_state, by_role, only_mode)
    if found.placement is not None or found.too_few:
        return found
    nodes = list(dict.fromkeys(o.device.node for _, offers in by_role for o in offers))
    for node in nodes if len(nodes) > 1 else ():
        here = [(role, [o for o in some if o.device.node == node]) for role, some in by_role]
        alone = _place(view, policy, job, policy_state, here, only_mode)
        if alone.placement is not None:
            return alone
    return found


def _place(
    view: View,
    policy: Policy,
    job: Job,
    policy_state: Any,
    by_role: Sequence[OffersOfRole],
    only_mode: Collocation | None,
) -> Found:
    """Return a placement where the policy wants it, in the first mode that has enough devices."""
    modes: Sequence[Collocation | None] = [only_mode]
    if only_mode is None and job.gpus != 1:
        modes = _modes(policy, job, by_role)
    tried: list[Found] = []
    for mode in modes or [None]:
        tried.append(_find(view, policy, job, policy_state, by_role, mode))
        if tried[-1].placement is not None:
            return tried[-1]
    if len(tried) == 1:
        return tried[0]
    # The result with a reason for the most devices is the most useful one.
    found = max(tried, key=lambda found: len(found.refusals))
    return replace(found, too_few=all(each.too_few for each in tried))


def _offers(view: View, job: Job, role: Role, only: Collection[str] | None) -> Sequence[Offer]:
    if only is None:
        return view.offers(job, role)
    uuids = [device.uuid for device in view.devices() if device.uuid in only]
    return [view.offer(job, role, uuid) for uuid in uuids]


def _modes(policy: Policy, job: Job, by_role: Sequence[OffersOfRole]) -> list[Collocation | None]:
    """Return the modes to try; first those that more of the eligible devices have."""
    offers = [offer for _, offers in by_role for offer in offers]
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
    by_role: Sequence[OffersOfRole],
    mode: Collocation | None,
) -> Found:
    """Return a placement in this mode; None: in the mode of the devices."""
    refusals: list[Refusal] = []
    choices: list[_Choice] = []
    for role, offers in by_role:
        ask = Ask(job, job.count(role) * role.needs.gpus, view.need_mib(job, role))
        eligible: list[Offer] = []
        if mode is not None:
            offers = list(_offers_in_mode(view, policy, job, role, offers, mode))
        for offer in offers:
            refusal = offer.refusal or policy.refuse(ask, offer)
            if refusal is None:
                eligible.append(offer)
            else:
                refusals.append(refusal)
        choices.append((ask, eligible))
    short = _shortage(choices)
    if short is not None:
        wanted, able = short
        why = f"needs {wanted} GPU{'s' * (wanted != 1)}, {able} can take it now"
        refusals.append(Refusal("count", why, None, wanted, able))
        return Found(None, tuple(refusals), policy_state, too_few=True)
    shares: list[Share] = []
    of_role, policy_state = _choose_all(_Ranked(view, policy, job), choices, policy_state)
    found = Collocation.EXCLUSIVE
    for (role, _), (ask, _), chosen in zip(by_role, choices, of_role, strict=True):
        found = _mode(policy, chosen[0])
        for number, offer in enumerate(chosen):
            reserved = _reservation_mib(view, policy, job, ask.need_mib, offer)
            shares.append(_share(job, role, number // role.needs.gpus, offer.device, reserved))
    gpuless = [
        _share(job, role, task)
        for role in job.spec.roles
        if not role.needs.gpus
        for task in range(job.count(role))
    ]
    if gpuless:
        shares = [*put_on_nodes(view, gpuless, shares), *shares]
    placement = Placement(shares=tuple(shares), collocation=found)
    lacks = view.refuse_on_nodes(job, placement)
    if lacks is not None:
        return Found(None, (*refusals, lacks), policy_state)
    return Found(placement, tuple(refusals), policy_state)


_Choice: TypeAlias = tuple[Ask, Sequence[Offer]]


def _shortage(choices: Sequence[_Choice]) -> tuple[int, int] | None:
    """Return how many devices some roles want together, and how many they can have, if too few."""
    if len(choices) == 1:
        (ask, some), *_ = choices
        return (ask.gpus, len(some)) if ask.gpus > len(some) else None
    return shortage_of([(ask.gpus, [o.device.uuid for o in some]) for ask, some in choices])


def _without(offers: Sequence[Offer], *uuids: str) -> list[Offer]:
    return [offer for offer in offers if offer.device.uuid not in uuids]


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A policy that chooses among the devices that suit a job best."""

    view: View
    policy: Policy
    job: Job

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        """Return the policy's best devices of the best ranks, and its new state.

        A job on several devices gets devices of one rank, if enough of them have one that is no
        more avoided than others; else it gets the best ranks together. Devices that no list names
        do not come before enough that one does.
        """
        if not self.view.prefers(self.job):
            return self._choose_equals(ask, eligible, state)
        ranked = sorted((self.view.rank(self.job, o.device), i) for i, o in enumerate(eligible))
        least, most = ranked[0][0].avoided, ranked[ask.gpus - 1][0].avoided
        tiers = [
            (rank, [eligible[i] for _, i in tier])
            for rank, tier in groupby(ranked, key=lambda each: each[0])
        ]
        listed = [self._is_listed(rank) for rank, _ in ranked if rank.avoided == least]
        enough = sum(listed) >= ask.gpus
        for rank, tier in tiers:
            if enough and not self._is_listed(rank):
                continue
            if least == most == rank.avoided and len(tier) >= ask.gpus:
                return self._choose_equals(ask, tier, state)
        chosen: list[Offer] = []
        for _, tier in tiers:
            left = ask.gpus - len(chosen)
            if len(tier) >= left:
                found, state = self.policy.choose(replace(ask, gpus=left), tier, state)
                return [*chosen, *found], state
            chosen += tier
        return chosen, state

    def _is_listed(self, rank: Rank) -> bool:
        """Return whether the job's list names a device of this rank; without one, the site's."""
        own, site = self.job.spec.prefer_gpus, self.view.settings.gpu_order
        return rank.own < len(own) if own else rank.site < len(site)

    def _choose_equals(
        self, ask: Ask, equals: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        chosen, new_state = self.policy.choose(ask, equals, state)
        near = find_near(chosen, equals)
        return (chosen, new_state) if near is None else self.policy.choose(ask, near, state)


def _choose_all(
    policy: _Ranked, choices: Sequence[_Choice], policy_state: Any
) -> tuple[list[Sequence[Offer]], Any]:
    """Return the devices of each role, for which an assignment exists; and the policy's new state.

    The role with the fewest devices to spare chooses first.
    """
    found: list[Sequence[Offer]] = [()] * len(choices)
    left = sorted(range(len(choices)), key=lambda i: len(choices[i][1]) - choices[i][0].gpus)
    taken: set[str] = set()
    while left:
        here = left.pop(0)
        free = [(ask, _without(some, *taken)) for ask, some in choices]
        others = [free[i] for i in left]
        found[here], policy_state = _choose(policy, free[here], others, policy_state)
        taken.update(offer.device.uuid for offer in found[here])
    return found, policy_state


def _choose(
    policy: _Ranked, choice: _Choice, others: Sequence[_Choice], policy_state: Any
) -> tuple[Sequence[Offer], Any]:
    """Return the policy's best devices that leave enough for the other roles.

    While it does not, the role loses the last of these devices that it can do without, and the
    policy chooses again. Some assignment always remains, so this ends.
    """
    ask, eligible = choice
    while True:
        chosen, new_state = policy.choose(ask, eligible, policy_state)
        taken = {offer.device.uuid for offer in chosen}
        if _shortage([(other, _without(some, *taken)) for other, some in others]) is None:
            return chosen, new_state
        fewer = (_without(eligible, offer.device.uuid) for offer in reversed(chosen))
        eligible = next(left for left in fewer if _shortage([(ask, left), *others]) is None)


def _offers_in_mode(
    view: View,
    policy: Policy,
    job: Job,
    role: Role,
    offers: Sequence[Offer],
    mode: Collocation,
) -> Iterator[Offer]:
    """Yield the offers of the devices that can be shared in this mode."""
    for offer in offers:
        natural = _mode(policy, offer)
        if natural is mode:
            yield offer
        elif mode is Collocation.TIMESLICE and can_be_time_sliced(job, natural):
            yield view.offer(job, role, offer.device.uuid, mode)
        elif offer.refusal is not None:
            yield offer  # only for its refusal


def _share(
    job: Job, role: Role, task: int, device: Device | None = None, reserved_mib: int = 0
) -> Share:
    """Return a task's part of a device; None: of no device."""
    return Share(
        device=device.uuid if device is not None else None,
        node=device.node if device is not None else LOCAL_NODE,
        reserved_mib=reserved_mib,
        role=role.name,
        task=task,
        cpus=role.needs.cpus,
        memory_mib=job.host_memory_mib(role, task),
    )


def _mode(policy: Policy, offer: Offer) -> Collocation:
    """Return the mode on an offered device under this policy."""
    if policy.whole_device and not offer.mode.whole_device:
        return Collocation.EXCLUSIVE
    return offer.mode


def _reservation_mib(view: View, policy: Policy, job: Job, need: int | None, offer: Offer) -> int:
    """Return the MiB to reserve on an offered device."""
    if _mode(policy, offer).whole_device or job.recovers_idle:
        # A recovered job has the whole device until its memory has settled.
        return offer.device.capacity_mib
    if need is None:
        return min(policy.floor_mib, offer.device.capacity_mib)
    if offer.mode is Collocation.MPS and (not job.declared or job.recovers):
        return _stretched(need, offer.free_mib or 0, view.settings.stretch, policy.floor_mib)
    if not job.declared:
        return need
    return need + max(0, min(job.margin_mib(need), (offer.free_mib or 0) - need))


def _stretched(need: int, free_mib: int, times: float, floor_mib: int) -> int:
    """Return the reservation for an estimated need of an MPS client, in MiB.

    It becomes the client's memory cap. With too low an estimate the client would die at the cap
    while memory is free. So until it settles, it also gets half of the free memory beyond its
    need. The limit is `times` its need, or `floor_mib` if that is more.
    """
    most = max(need * times, floor_mib) if times > 1.0 else need
    return int(max(need, min(most, need + (free_mib - need) // 2)))
