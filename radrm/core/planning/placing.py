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

A policy is a rule of somebody else. So each answer is checked (`Checked`): a wrong one is a failure
(`RuleFailed`), and the policy rests. Meanwhile the fallback replaces it; while that rests, too, the
job waits.

Planners try the same jobs after almost every event. So a search that found too few devices is kept
(`Searches`) and not made again while too few devices would take the job. Only the devices
that have changed are asked again, since each refuses by itself, for a job that has its GPUs for one
role. A search on some devices only (`only`), or in one mode, is not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from radrm.core.constraints.fit import can_be_time_sliced
from radrm.core.constraints.offers import OffersOfRole
from radrm.core.constraints.searches import Answers, Failure
from radrm.core.planning.choosing import Choice, Chooser, shortage
from radrm.core.planning.shapes import is_refusal
from radrm.core.records import LOCAL_NODE, Device, Job, NodeUse, Placement, Refusal, Role, Share
from radrm.core.rules import Ask, Policy
from radrm.core.state.isolation import RuleFailed as RuleFailed
from radrm.core.state.isolation import WrongAnswer, call_rule
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
    """Return a placement, or the refusals. A failed search is cached.

    The policy is not called while the job can start on no device. Raises `RuleFailed`.
    """
    nowhere = view.refuse_start(job)
    if nowhere is not None:
        return Found(None, (nowhere,), policy_state)
    known = view.searches.last(policy, job) if only is None else None
    if known is not None:
        unsure = view.searches.unsure(known, words=True)
        # With several devices the reasons are not one for each of them.
        if not unsure or (known.wanted == 1 and _refuse_again(view, policy, known, unsure)):
            return Found(None, tuple(known.why), policy_state, too_few=True)
    checked = Checked(policy, view.answers)
    placer = Placer(view, checked, job, policy_state, only, mode)
    by_role = placer.offers()
    found = placer.place(by_role)
    if found.too_few and only is None and mode is None:
        _keep_failure(view, policy, checked, job, found.refusals, by_role)
    return found


def fails_again(view: View, policy: Policy, job: Job) -> bool:
    """Return whether the last search for a job failed, and a search would fail now. It asks less
    than a search. False where that is not known."""
    known = view.searches.last(policy, job)
    if known is None or view.isolation.rests("policy", policy.name):
        return False
    unsure = view.searches.unsure(known, words=False)
    try:
        return not unsure or _refuse_again(view, policy, known, unsure)
    except RuleFailed:
        return False  # the search reports it


def _keep_failure(
    view: View,
    policy: Policy,
    checked: Checked,
    job: Job,
    why: Sequence[Refusal],
    by_role: Sequence[OffersOfRole],
) -> None:
    known = view.searches.keep(policy, job, [role for role, _ in by_role], why)
    if known.role is None:
        return
    ((role, offers),) = by_role
    refusals: Sequence[Refusal | None] = why
    if job.gpus > 1:  # these may be of another mode
        ask = Ask(job, job.gpus, view.need_mib(job, role))
        refusals = [offer.refusal or checked.refuse(ask, offer) for offer in offers]
    steady = checked.steady_for(job, role)
    for at, offer in enumerate(offers):
        view.searches.renew(known, at, offer, refusals[at], steady)
    known.old.clear()


def _refuse_again(view: View, policy: Policy, known: Failure, places: Collection[int]) -> bool:
    """Ask these devices again. Return whether too few take the job still. Raises `RuleFailed`."""
    job, role = known.job, known.role
    if role is None:
        return False
    ask = Ask(job, job.gpus, view.need_mib(job, role))
    checked = Checked(policy, view.answers)
    steady = checked.steady_for(job, role)
    for at in places:
        offer = view.offer(job, role, known.listed[at].uuid)
        refusal = offer.refusal or checked.refuse(ask, offer)
        if not view.searches.renew(known, at, offer, refusal, steady):
            return False
    view.searches.settle(known)
    return True


# ------------------------------------------------------------------ one search


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


# ------------------------------------------------------------------ a policy that may be wrong


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
