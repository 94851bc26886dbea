"""When a waiting job could start, by the predicted ends of the jobs that run.

Theory of operation
-------------------
A running job is expected to need its remaining time (`radrm/core/remaining.py`) beside its
present neighbours, for its whole time (`radrm/interference/model.py`); a job on several devices
counts on each as if all were like it. What it reports is the pace beside those neighbours: a job
that joins them slows it down from there. Its time limit bounds both.

The jobs of a device are then taken away in the order of these ends, until the policy of the waiting
job accepts what is left. So the forecast works with any policy, by the policy's own conditions. A
device that the core refuses because of its jobs counts from the last end; one that is reserved for
other users from the end of that; one that is out of service never. A job whose memory has not
settled reserves more than its need (`core.stretch`); later it is expected to reserve its need. One
on trial is expected to reserve `trial_floor_mib` after `settle_s`. What planners reserve for later,
CPUs and host memory are not looked at.

With exact durations, and neighbours that stay, the forecast is exact. Otherwise it is an estimate:
what is promised by it needs a bound of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct

from radrm.core.constraints.fit import TRIAL
from radrm.core.constraints.nodes import books_nothing
from radrm.core.records import Attempt, Job, Placement, Refusal, Role
from radrm.core.remaining import PROGRESS, TIME_LIMIT, latest_end_s, remaining
from radrm.core.rules import Ask, Policy
from radrm.core.view import Occupant, Offer, View
from radrm.core.words import ActionKind, Collocation
from radrm.interference.model import Demand, joint_speed, mixed_speeds, unknown_smact
from radrm.structs import replace

SLOWEST = 0.05
"""The least speed that is believed."""
BY_ITS_JOBS = frozenset({"taken", "recovering", "not idle", "mode", "cohort", "turn"})
"""The core's refusals that end when a device's jobs have left."""
TEMPORARY = frozenset({"reading", "reserved", TRIAL})
"""Those that end by themselves: `View.free_from_s` says when a reservation does."""


class Expected(Struct, frozen=True):
    """An occupant of a device, with `now_mib` reserved, and `mib` later."""

    occupant: Occupant
    now_mib: int
    mib: int


class Forecast:
    """When one waiting job could start if nothing else started. Times are boot-time seconds.

    A job that saves its work and then leaves is expected to be gone when it has saved, except those
    of `for_others`: their places are for other waiting jobs. It holds until the next change of the
    view. Raises what `policy.refuse` raises.
    """

    def __init__(
        self, view: View, policy: Policy, job: Job, for_others: Collection[int] = ()
    ) -> None:
        self._view, self._policy, self._job = view, policy, job
        self._for_others = for_others
        self._roles = [role for role in job.spec.roles if role.count_min * role.needs.gpus]
        self._ready_s = {device.uuid: self._ready(device.uuid, ()) for device in view.devices()}
        self.start_s = self._start_s({})
        """Infinity if it is not foreseeable."""

    @property
    def ready_s(self) -> dict[str, float]:
        """When each device is ready for a task of the job, by UUID; infinity: not foreseeable."""
        return self._ready_s

    def start_without_s(self, leaving: int, devices: Collection[str]) -> float:
        """Return when the job could start if the job `leaving` left these devices now."""
        return self._start_s({uuid: self._ready(uuid, (), leaving) for uuid in devices})

    def start_after_s(self, other: Job, placement: Placement) -> float:
        """Return when the job could start if `other` started now on this placement.

        If both book CPUs or host memory, not before `other` has ended.
        """
        there = self._expected(other, placement)
        at_s = self._start_s(
            {uuid: self._ready(uuid, (expected,)) for uuid, expected in there.items()}
        )
        if books_nothing(self._job) or books_nothing(other):
            return at_s
        return max(at_s, self.end_of(other, placement))

    def end_of(self, other: Job, placement: Placement) -> float:
        """Return when `other` would end if it started now on this placement."""
        view, last_s = self._view, 0.0
        for uuid, expected in self._expected(other, placement).items():
            offer = view.offer(self._job, self._roles[0], uuid)
            ends = _with_ends(view, offer, (expected,))
            last_s = max(last_s, *(at_s for at_s, each in ends if each is expected))
        return last_s if placement.devices else inf

    def _expected(self, other: Job, placement: Placement) -> dict[str, Expected]:
        now = self._view.now
        attempt = Attempt(other.id, other.attempts + 1, 0, placement, now, began=other.saved)
        occupant = Occupant(other, attempt, now.boot_s, False, None)
        found: dict[str, Expected] = {}
        for uuid in placement.devices:
            mib = sum(share.reserved_mib for share in placement.shares if share.device == uuid)
            found[uuid] = expect(self._view, occupant, mib, placement.collocation.whole_device)
        return found

    def _start_s(self, changed: dict[str, float]) -> float:
        ready = sorted({**self._ready_s, **changed}.values())
        count = self._job.spec.gpus
        return ready[count - 1] if 0 < count <= len(ready) else inf

    def _ready(self, uuid: str, joining: Sequence[Expected], leaving: int | None = None) -> float:
        """Return when a device is ready for a task of any role of the job."""
        ready = (self._ready_for(role, uuid, joining, leaving) for role in self._roles)
        return self._view.free_from_s(self._job, uuid, max(ready, default=inf))

    def _ready_for(
        self, role: Role, uuid: str, joining: Sequence[Expected], leaving: int | None
    ) -> float:
        view, offer = self._view, self._view.offer(self._job, role, uuid)
        refused = offer.refusal.rule if offer.refusal is not None else None
        if offer.free_mib is None or (
            refused is not None and refused not in BY_ITS_JOBS and refused not in TEMPORARY
        ):
            return inf
        ask = Ask(self._job, role.count_min * role.needs.gpus, view.need_mib(self._job, role))
        ends = _with_ends(view, offer, joining)
        now_s = view.now.boot_s
        ends = [(min(at_s, self._leaves_s(uuid, s.occupant.job.id)), s) for at_s, s in ends]
        ends = [(now_s if s.occupant.job.id == leaving else at_s, s) for at_s, s in ends]
        left = sorted(ends, key=lambda each: each[0])
        free_mib = offer.free_mib - sum(expected.now_mib for expected in joining)
        surplus_mib = sum(expected.now_mib - expected.mib for _, expected in left)
        at_s = now_s
        if refused == TRIAL:
            then = offer_with(view, offer, [each for _, each in left], free_mib + surplus_mib)
            if self._refuse(ask, then) is None:
                return now_s + view.settings.settle_s
        while True:
            if not left or refused not in BY_ITS_JOBS:
                then = offer_with(view, offer, [each for _, each in left], free_mib)
                if self._refuse(ask, then) is None:
                    return at_s
            if not left:
                return inf
            at_s, expected = left.pop(0)
            free_mib += expected.mib + surplus_mib
            surplus_mib = 0

    def _leaves_s(self, uuid: str, job_id: int) -> float:
        """Return when a job that was asked to save and leave a device has done so; else infinity.

        By the time that a save of it takes, as measured or stated; if that is unknown, now.
        """
        job, attempt = self._view.job(job_id), self._view.attempt(job_id)
        if job is None or attempt is None or job_id in self._for_others:
            return inf
        asked = attempt.asked(ActionKind.CHECKPOINT)
        if asked is None or uuid not in self._view.leaving(job, attempt):
            return inf
        save_s = job.spec.checkpoint.cost_s if job.save_s is None else job.save_s
        return max(self._view.now.boot_s, asked.asked.boot_s + (save_s or 0.0))

    def _refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        if offer.idle and (ask.need_mib or 0) <= offer.device.capacity_mib:
            return None
        return self._policy.refuse(ask, offer)


def expect(view: View, occupant: Occupant, reserved_mib: int, whole: bool) -> Expected:
    """Return an occupant with its memory. `whole`: it keeps the whole device."""
    mib = reserved_mib
    if not occupant.settled and not whole:
        needs = [view.need_mib(occupant.job, role) for role in occupant.job.spec.roles]
        known = [need for need in needs if need is not None]
        floor_mib = view.settings.trial_floor_mib
        mib = min(mib, max(known, default=mib if floor_mib is None else floor_mib))
    return Expected(occupant, reserved_mib, mib)


def _with_ends(
    view: View, offer: Offer, joining: Sequence[Expected]
) -> list[tuple[float, Expected]]:
    """Return the jobs of a device, and those that join them now, with their expected ends."""
    held = {each.job_id: each.mib for each in view.reservations(offer.device.uuid)}
    there = []
    for occupant in offer.occupants:
        mib, whole = held.get(occupant.job.id, 0), offer.device.capacity_mib
        there.append(expect(view, occupant, whole if mib is None else mib, mib is None))
    there += joining
    uuid = offer.device.uuid
    at_speed = speeds_of(view, uuid, there)
    before = speeds_of(view, uuid, there[: len(offer.occupants)]) if joining else at_speed
    before += [1.0] * len(joining)
    kind = offer.device.name
    return [
        (end_of(view, expected, kind, speed, was).at_s, expected)
        for expected, speed, was in zip(there, at_speed, before, strict=True)
    ]


def speeds_of(view: View, uuid: str, there: Sequence[Expected]) -> list[float]:
    """Return the speed of each job of a device; a job on several counts as alike on each."""
    clients = [_mode(expected) is Collocation.MPS for expected in there]
    demands = [Demand(_smact(expected.occupant)) for expected in there]
    found = mixed_speeds(demands, clients, loss=view.loss(uuid, all(clients)))
    wide = [max(1, expected.occupant.job.spec.gpus) for expected in there]
    return [
        max(SLOWEST, joint_speed([speed] * gpus)) for speed, gpus in zip(found, wide, strict=True)
    ]


class End(NamedTuple):
    """When a job on a device ends (boot time): expected, at the latest, and the source."""

    at_s: float
    latest_s: float
    source: str | None


def end_of(view: View, expected: Expected, kind: str, speed: float, before: float) -> End:
    """Return the end of a job at this speed; infinity if unknown. `before`: its speed until now."""
    job, attempt, now = expected.occupant.job, expected.occupant.attempt, view.now
    last_s = latest_end_s(job, attempt, now)
    left = remaining(job, attempt, now, kind=kind, gpus=job.spec.gpus, speed=speed)
    if left is None or left.source == TIME_LIMIT:
        return End(last_s, last_s, None if left is None else TIME_LIMIT)
    slower = before / speed if left.source == PROGRESS else 1.0
    at_s, latest_s = now.boot_s + left.value_s * slower, now.boot_s + left.upper_s * slower
    return End(min(last_s, at_s), min(last_s, latest_s), left.source)


def offer_with(view: View, offer: Offer, left: Sequence[Expected], free_mib: int) -> Offer:
    """Return an offer of the device when only these jobs are left there."""
    capacity = offer.device.capacity_mib
    free_mib = min(capacity, max(0, free_mib))
    occupants = tuple(expected.occupant for expected in left)
    known = [occupant.smact for occupant in occupants if occupant.smact is not None]
    same = occupants == offer.occupants
    smact = offer.smact if same or len(known) < len(occupants) else min(1.0, sum(known))
    return replace(
        offer,
        idle=not left and free_mib >= capacity - view.settings.idle_unmanaged_mib,
        free_mib=free_mib,
        smact=smact,
        job_ids=tuple(occupant.job.id for occupant in occupants),
        refusal=None,
        occupants=occupants,
    )


def _mode(expected: Expected) -> Collocation:
    return expected.occupant.attempt.placement.collocation


def _smact(occupant: Occupant) -> float:
    if occupant.smact is not None:
        return occupant.smact
    return unknown_smact(occupant.attempt.placement.collocation is Collocation.MPS)
