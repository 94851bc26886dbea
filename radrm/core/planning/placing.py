"""Where one job could start: the search that all planners share.

Theory of operation
-------------------
A `Placer` has one question: where does this job start, by this policy? It asks the view for an
offer of each device and each role, and answers with a placement or with the refusals:

1. The *nodes*. It takes the devices that the policy wants, on any node. If CPUs or host memory
   lack there, it tries each node alone.
2. The *mode*. A placement has one collocation mode. For a job on several devices it tries the
   modes of the devices, first the one that more of them have. If these are too few, the job is
   time-sliced on all, also where it could be an MPS client.
3. The *devices*. Those that the core or the policy refuses are left out. If enough are left, the
   policy chooses (`choosing.py`).
4. The *shares*. Each task gets its devices, with the memory to reserve there. A task on a GPU is
   on its GPU's node; the others go where CPUs are free (`put_on_nodes`).

What it does not do: it keeps nothing, and it changes nothing. `searching.py` checks the policy's
answers, and keeps searches that failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from radrm.core.constraints.alone import can_be_time_sliced
from radrm.core.constraints.offers import OffersOfRole
from radrm.core.planning.choosing import Choice, Chooser, shortage
from radrm.core.records import LOCAL_NODE, Device, Job, NodeUse, Placement, Refusal, Role, Share
from radrm.core.rules import Ask, Policy
from radrm.core.view import Offer, View
from radrm.core.words import Collocation
from radrm.structs import replace


class Found(Struct, frozen=True):
    """A placement, or None with the refusals; and the policy's new state.

    `too_few`: there is none because too few devices were accepted, whatever else is booked.
    """

    placement: Placement | None
    refusals: tuple[Refusal, ...]
    policy_state: Any
    too_few: bool = False


class Placer(Struct):
    """Searches a place for a job at its smallest size, by a policy in this state.

    `only`: on no other devices. `mode`: in no other mode.
    """

    view: View
    policy: Policy
    job: Job
    policy_state: Any
    only: Collection[str] | None = None
    mode: Collocation | None = None

    def find(self) -> Found:
        """Return a placement, or the refusals."""
        nowhere = self.view.refuse_start(self.job)
        if nowhere is not None:
            return Found(None, (nowhere,), self.policy_state)
        return self.place(self.offers())

    def offers(self) -> Sequence[OffersOfRole]:
        """Return each role that needs devices, with the offers of the devices to it."""
        job = self.job
        return [
            (role, self._offers_to(role))
            for role in job.spec.roles
            if job.count(role) * role.needs.gpus
        ]

    def _offers_to(self, role: Role) -> Sequence[Offer]:
        view, only = self.view, self.only
        if only is None:
            return view.offers(self.job, role)
        uuids = [device.uuid for device in view.devices() if device.uuid in only]
        return [view.offer(self.job, role, uuid) for uuid in uuids]

    # ------------------------------------------------------------- nodes and modes

    def place(self, by_role: Sequence[OffersOfRole]) -> Found:
        """Return a placement among these offers."""
        found = self._on_any_node(by_role)
        if found.placement is not None or found.too_few:
            return found
        nodes = list(dict.fromkeys(o.device.node for _, offers in by_role for o in offers))
        for node in nodes if len(nodes) > 1 else ():
            here = [(role, [o for o in some if o.device.node == node]) for role, some in by_role]
            alone = self._on_any_node(here)
            if alone.placement is not None:
                return alone
        return found

    def _on_any_node(self, by_role: Sequence[OffersOfRole]) -> Found:
        """Return a placement where the policy wants it, in the first mode with enough devices."""
        modes: Sequence[Collocation | None] = [self.mode]
        if self.mode is None and self.job.gpus != 1:
            modes = self._modes(by_role)
        tried: list[Found] = []
        for mode in modes or [None]:
            tried.append(self._in_mode(mode, by_role))
            if tried[-1].placement is not None:
                return tried[-1]
        if len(tried) == 1:
            return tried[0]
        # The result with a reason for the most devices is the most useful one.
        found = max(tried, key=lambda found: len(found.refusals))
        return replace(found, too_few=all(each.too_few for each in tried))

    def _modes(self, by_role: Sequence[OffersOfRole]) -> list[Collocation | None]:
        """Return the modes to try; first those that more of the eligible devices have."""
        offers = [offer for _, offers in by_role for offer in offers]
        often = Counter(self._mode_on(offer) for offer in offers if offer.refusal is None)
        modes: list[Collocation | None] = [*sorted(often, key=lambda mode: -often[mode])]
        if any(can_be_time_sliced(self.job, self._mode_on(offer)) for offer in offers):
            modes = [*(m for m in modes if m is not Collocation.TIMESLICE), Collocation.TIMESLICE]
        return modes

    def _mode_on(self, offer: Offer) -> Collocation:
        """Return the mode on an offered device under the policy."""
        if self.policy.whole_device and not offer.mode.whole_device:
            return Collocation.EXCLUSIVE
        return offer.mode

    # ------------------------------------------------------------- devices

    def _in_mode(self, mode: Collocation | None, by_role: Sequence[OffersOfRole]) -> Found:
        """Return a placement in this mode; None: in the mode of the devices."""
        job, policy = self.job, self.policy
        refusals: list[Refusal] = []
        choices: list[Choice] = []
        for role, offers in by_role:
            ask = Ask(job, job.count(role) * role.needs.gpus, self.view.need_mib(job, role))
            eligible: list[Offer] = []
            for offer in offers if mode is None else self._offers_in(mode, role, offers):
                refusal = offer.refusal or policy.refuse(ask, offer)
                if refusal is None:
                    eligible.append(offer)
                else:
                    refusals.append(refusal)
            choices.append((ask, eligible))
        short = shortage(choices)
        if short is not None:
            wanted, able = short
            why = f"needs {wanted} GPU{'s' * (wanted != 1)}, {able} can take it now"
            refusals.append(Refusal("count", why, None, wanted, able))
            return Found(None, tuple(refusals), self.policy_state, too_few=True)
        chooser = Chooser(self.view, policy, job, self.policy_state)
        chosen = chooser.choose(choices)
        placement = self._placement([role for role, _ in by_role], choices, chosen)
        lacks = self.view.refuse_on_nodes(job, placement)
        if lacks is not None:
            return Found(None, (*refusals, lacks), chooser.state)
        return Found(placement, tuple(refusals), chooser.state)

    def _offers_in(self, mode: Collocation, role: Role, offers: Sequence[Offer]) -> Iterator[Offer]:
        """Yield the offers of the devices that can be shared in this mode."""
        for offer in offers:
            natural = self._mode_on(offer)
            if natural is mode:
                yield offer
            elif mode is Collocation.TIMESLICE and can_be_time_sliced(self.job, natural):
                yield self.view.offer(self.job, role, offer.device.uuid, mode)
            elif offer.refusal is not None:
                yield offer  # only for its refusal

    # ------------------------------------------------------------- shares

    def _placement(
        self, roles: Sequence[Role], choices: Sequence[Choice], chosen: Sequence[Sequence[Offer]]
    ) -> Placement:
        """Return the placement of all tasks on the chosen devices."""
        job, shares, found = self.job, list[Share](), Collocation.EXCLUSIVE
        for role, (ask, _), offers in zip(roles, choices, chosen, strict=True):
            found = self._mode_on(offers[0])
            for number, offer in enumerate(offers):
                reserved = self._reservation_mib(ask.need_mib, offer)
                shares.append(_share(job, role, number // role.needs.gpus, offer.device, reserved))
        gpuless = [
            _share(job, role, task)
            for role in job.spec.roles
            if not role.needs.gpus
            for task in range(job.count(role))
        ]
        if gpuless:
            shares = [*put_on_nodes(self.view.nodes(), gpuless, shares), *shares]
        return Placement(shares=tuple(shares), collocation=found)

    def _reservation_mib(self, need: int | None, offer: Offer) -> int:
        """Return the MiB to reserve on an offered device."""
        job, floor_mib = self.job, self.policy.floor_mib
        if self._mode_on(offer).whole_device or job.recovers_idle:
            # A recovered job has the whole device until its memory has settled.
            return offer.device.capacity_mib
        if need is None:
            return self._unknown_mib(offer)
        if offer.mode is Collocation.MPS and (not job.declared or job.recovers):
            return _stretched(need, offer.free_mib or 0, self.view.settings.stretch, floor_mib)
        if not job.declared:
            return need
        return need + max(0, min(job.margin_mib(need), (offer.free_mib or 0) - need))

    def _unknown_mib(self, offer: Offer) -> int:
        """Return the MiB to reserve for a job of unknown need: all that is free, if it
        is on trial.

        While others wait, the jobs of a user on trial have half of the devices at most, and beyond
        that the half of what is free.
        """
        floor_mib, capacity, free = self.policy.floor_mib, offer.device.capacity_mib, offer.free_mib
        if self.view.settings.trial_floor_mib is None or not self.job.needs_trial or free is None:
            return min(floor_mib, capacity)
        if self.view.tries_enough(self.job):
            free //= 2
        return min(max(floor_mib, free), capacity)


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


def _stretched(need: int, free_mib: int, times: float, floor_mib: int) -> int:
    """Return the reservation for an estimated need of an MPS client, in MiB.

    It becomes the client's memory cap. With too low an estimate the client would die at the cap
    while memory is free. So until it settles, it also gets half of the free memory beyond its
    need. The limit is `times` its need, or `floor_mib` if that is more.
    """
    most = max(need * times, floor_mib) if times > 1.0 else need
    return int(max(need, min(most, need + (free_mib - need) // 2)))


# ------------------------------------------------------------------ tasks without a GPU


def put_on_nodes(
    known: Sequence[NodeUse], shares: Sequence[Share], beside: Iterable[Share]
) -> list[Share]:
    """Return the shares of tasks without a GPU, each on one of the known nodes.

    `beside`: shares of the same job that are not booked yet. Their nodes come first, then those
    with the most free CPUs. A task goes to the first one with room beside the tasks before it. If
    none has room, it goes to the first of all: the check of the placement tells what lacks.
    """
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
