"""Packing: share a GPU where the model of interference predicts that the whole gains.

Theory of operation
-------------------
The policy knows each job's SM activity alone: measured, else predicted, else assumed (by mode). A
device's *demand* is the sum over its jobs. From it the model (`radrm/interference/model.py`)
predicts every job's speed, so a device that has just taken a job needs no new readings before it
takes the next one. But a job of which nothing is known is first waited for: until its device is
warm.

Predictions may be wrong. What was only assumed gives way to readings: by the model, some demand
would show what the device shows, and what is known of the other jobs is taken off. Under MPS a
device below `_SATURATED` delivers what its jobs demand, so its measured SM activity
replaces the sum there. Above, readings cannot tell how much more the jobs demand, and a time-sliced
device never shows its demand: there the larger of the two counts. What a device without jobs shows
is the demand of unmanaged processes.

Where only utilization is read, jobs that overlap show no sum, and where nothing is read, they show
nothing. There what was assumed stands, and `max_blind_jobs` bounds the jobs of a device.

The model's weights of shares depend on batch size and family, which a policy does not see. All
jobs count alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from radrm.core.records import Job, Refusal
from radrm.core.rules import Ask
from radrm.core.settings import fixed
from radrm.core.units import show_mib
from radrm.core.view import Offer
from radrm.core.words import Collocation, Quantity
from radrm.interference.model import (
    UNKNOWN_SMACT_MPS,
    UNKNOWN_SMACT_TIMESLICE,
    Demand,
    activity,
    joint_speed,
    mixed_speeds,
    total_activity,
)

_SATURATED = 0.80
"""Below this SM activity a GPU under MPS delivers nearly all that its jobs demand."""
_LEAST_SHOWN = 0.5
"""A job counts with this part of what is assumed at least: its device's readings also show the time
until it computed."""
_LEAST_USUAL = 0.1
"""A job of which nothing is known counts with this at least, however little others need here."""
_CHEAP = 0.25
"""Below this loss, learned on this server, a device without good readings takes one more job."""
_HALVINGS = 20
_DIGITS = 1
"""Demands that differ by less than readings do are alike: then the free memory decides."""
_ROUNDING = 1e-9
_KEPT = 4096
"""Kept results of the model: many waiting jobs are alike, and ask the same of one device."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Place each job where it adds most to the work that the server completes.

    A busy device must have free memory for the need and `margin_mib`, and the sum of its jobs' SM
    activity must not exceed `max_demand`. A job joins only if all jobs there then complete no less
    work together than before, and time-sliced more (`timeslice_min_gain`): large jobs wait for idle
    devices. No job's predicted slowdown exceeds its `--max-slowdown`, or `max_slowdown`. The device
    with the least demand is best. Jobs on several devices keep apart while they can, and always if
    together they would complete less: each waits for its slowest device, and they would slow one
    another on all of them.
    """

    max_demand: float = 1.6
    """The largest sum of SM activity on a shared device.

    A site that wants fewer or more jobs on a GPU: `radrm bench collocate` measures what pays."""
    timeslice_min_gain: float = 0.15
    """A job that would be time-sliced joins if all jobs there then complete more work than before:
    by this fraction of what it would do alone.

    A site without MPS that wants less sharing, or more of it."""
    max_blind_jobs: int = 2
    """The most jobs on a device where SM activity is not read, or only estimated from utilization.
    One more where this server has learned that sharing costs little.

    A site whose GPUs report no SM activity and whose jobs are small, or large."""
    max_slowdown: float = 0.0
    """The largest predicted slowdown of any job, 1 or more; 0: no limit.

    A site that promises its users a speed."""
    margin_mib: int = fixed(2048)
    """The free memory of a busy device beyond the need, against fragmentation."""
    new_margin_mib: int = fixed(5120)
    """The same, if the need is estimated and the SM activity unknown."""
    floor_mib: int = 5120
    """A job of unknown need reserves this much, and needs this much free memory.

    A site with small GPUs, or with jobs that are usually larger."""
    assumed_smact: float = fixed(UNKNOWN_SMACT_MPS)
    """The SM activity of a job whose own is neither measured nor predicted."""
    timeslice_assumed_smact: float = fixed(UNKNOWN_SMACT_TIMESLICE)
    """The same on a device where jobs would be time-sliced."""
    whole_device: bool = False
    name: str = "packing"
    version: int = 1
    steady_refusals: ClassVar[frozenset[str]] = frozenset({"memory"})

    def __post_init__(self) -> None:
        if not 0 <= self.timeslice_min_gain <= 1:
            given = self.timeslice_min_gain
            raise ValueError(f"timeslice_min_gain = {given} is not a fraction from 0 to 1")
        if self.max_blind_jobs < 1:
            raise ValueError(f"max_blind_jobs must be at least 1, not {self.max_blind_jobs}")
        if 0 < self.max_slowdown < 1:
            raise ValueError(f"max_slowdown must be 0 or at least 1, not {self.max_slowdown}")

    @property
    def overcommits(self) -> bool:
        return False

    @property
    def honours_slowdown(self) -> bool:
        return True

    @property
    def trials(self) -> bool:
        return True

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        if offer.idle:
            return None
        return self._refuse_memory(ask, offer) or self._refuse_load(ask, offer)

    def _refuse_memory(self, ask: Ask, offer: Offer) -> Refusal | None:
        uuid, free = offer.device.uuid, offer.free_mib
        is_new = not ask.job.declared and ask.job.predicted(Quantity.SMACT) is None
        margin = max(self.margin_mib, self.new_margin_mib) if is_new else self.margin_mib
        margin = ask.margin_mib(margin)
        wanted = (
            self._guess_mib(ask.job, offer) if ask.need_mib is None else ask.need_mib
        ) + margin
        if free is None:
            return Refusal("memory", "its free memory is unknown", uuid, wanted)
        if free < wanted:
            why = f"needs {show_mib(wanted)} (margin included), {show_mib(free)} free"
            return Refusal("memory", why, uuid, wanted, free)
        return None

    def _guess_mib(self, job: Job, offer: Offer) -> int:
        """Return what a job of unknown need is expected to need beside these jobs: what those of
        the same name have shown there, and at least `floor_mib`."""
        name, uid = job.spec.name, job.spec.uid
        alike = [h for h in offer.occupants if (h.job.spec.name, h.job.spec.uid) == (name, uid)]
        return max([self.floor_mib, *(h.attempt.peak_mib or 0 for h in alike)])

    def _refuse_load(self, ask: Ask, offer: Offer) -> Refusal | None:
        uuid, here, own = offer.device.uuid, self._demands(offer), self._smact(ask.job, offer)
        if not offer.warm and offer.smact is None and not _is_known(offer):
            # Its jobs' memory is not known yet, either: they are still starting.
            return Refusal("smact", offer.smact_refusal or "its SM activity is unknown", uuid, 1.0)
        if refusal := self._refuse_number(offer, len(here)):
            return refusal
        origin = _origin(ask.job, offer)
        if sum(here) + own > self.max_demand:
            left = max(0.0, self.max_demand - sum(here))
            shown = f"{own:.2f}{origin}"
            why = (
                f"needs SM activity of {shown}, {left:.2f} of the allowed {self.max_demand:.2f} "
                "are left"
            )
            return Refusal("demand", why, uuid, own, left)
        widths = [*(occupant.job.spec.gpus for occupant in offer.occupants), ask.job.spec.gpus]
        widths = [1] * (len(here) + 1 - len(widths)) + widths
        before = _work(offer, here, widths[:-1])
        gain = _work(offer, [*here, own], widths) - before
        least = 0.0 if offer.mode is Collocation.MPS else self.timeslice_min_gain * own
        if gain < least - _ROUNDING:
            shown, there = f"{own:.2f}{origin}", sum(here)
            why = (
                f"with SM activity of {shown} beside {there:.2f}, sharing adds {gain:.2f} of work, "
                f"at least {least:.2f} is needed"
            )
            return Refusal("gain", why, uuid, least, gain)
        return self._refuse_slowdown(ask, offer, [*here, own])

    def _refuse_number(self, offer: Offer, here: int) -> Refusal | None:
        """Refuse a device that shows too little of its jobs if it has as many as it may."""
        if offer.smact is not None and not offer.coarse:
            return None
        if _is_known(offer) and not offer.coarse:
            return None
        most = self.max_blind_jobs
        if offer.loss is not None and offer.loss < _CHEAP:
            most += 1
        if here < most:
            return None
        why = offer.smact_refusal or "its SM activity is only estimated from utilization"
        why = f"it has {here} of at most {most} jobs: {why}"
        return Refusal("jobs", why, offer.device.uuid, here + 1, most)

    def _refuse_slowdown(self, ask: Ask, offer: Offer, together: Sequence[float]) -> Refusal | None:
        jobs = [*(occupant.job for occupant in offer.occupants), ask.job]
        limits = [self._limit(job) for job in jobs]
        if not any(limits):
            return None
        found = _speeds(offer, together)[-len(jobs) :]
        for job, limit, speed in zip(jobs, limits, found, strict=True):
            # As if all devices of a job were like this one: each is judged by itself.
            slowdown = 1 / max(1e-9, joint_speed([speed] * max(1, job.spec.gpus)))
            if limit and slowdown > limit:
                whose = "it" if job.id == ask.job.id else f"job {job.label}"
                why = f"{whose} would run {slowdown:.2f} times as long, max_slowdown is {limit:g}"
                return Refusal("slowdown", why, offer.device.uuid, limit, slowdown)
        return None

    def _limit(self, job: Job) -> float:
        """Return the largest slowdown of a job; 0: no limit."""
        found = [each for each in (self.max_slowdown, job.spec.max_slowdown) if each]
        return min(found, default=0.0)

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        def merit(offer: Offer) -> tuple[bool, float, int, int]:
            here = self._demands(offer)
            apart = ask.gpus > 1 and any(occupant.job.spec.gpus > 1 for occupant in offer.occupants)
            demand = round(sum(here), _DIGITS)  # noise of readings decides nothing
            return apart, demand, -(offer.free_mib or 0), offer.device.index

        return sorted(eligible, key=merit)[: ask.gpus], state

    # ------------------------------------------------------------- SM activity

    def _assumed(self, job: Job | None, offer: Offer) -> float:
        """Return the SM activity of a job of which nothing is known; None: of other processes."""
        usual = None if job is None else job.predicted(Quantity.USUAL_SMACT)
        if usual is not None:
            return min(1.0, max(_LEAST_USUAL, usual))
        mps = offer.mode is Collocation.MPS
        return self.assumed_smact if mps else self.timeslice_assumed_smact

    def _smact(self, job: Job, offer: Offer) -> float:
        found = job.smact_in(offer.mode, offer.device)
        return self._assumed(job, offer) if found is None else found

    def _demands(self, offer: Offer) -> list[float]:
        """Return the SM activity that each job on a device would show alone.

        Before it stands that of unmanaged processes, if there is no job.
        """
        shown = offer.smact
        known = [occupant.smact for occupant in offer.occupants]
        found = [
            self._assumed(occupant.job, offer) if each is None else each
            for each, occupant in zip(known, offer.occupants, strict=True)
        ]
        if not found and not offer.idle:
            return [self._assumed(None, offer) if shown is None else shown]
        if shown is None or not found or (offer.coarse and len(found) > 1):
            return found
        mps, total = offer.mode is Collocation.MPS, sum(found)
        full = shown >= _SATURATED
        if None in known:
            demand = _demand_of(shown, len(found), mps, offer.loss)
            rest = demand - sum(each for each in known if each is not None)
            own = rest / known.count(None)
            found = [
                min(1.0, max(_LEAST_SHOWN * was, own)) if each is None else each
                for each, was in zip(known, found, strict=True)
            ]
            total = sum(found)
        if shown > total:
            # Each job may be the one that does more than was predicted.
            return [each + (shown - total) / len(found) for each in found]
        if not mps or full or not total:
            return found
        return [each * shown / total for each in found]


@lru_cache(_KEPT)
def _demand_of(shown: float, jobs: int, mps: bool, loss: float | None) -> float:
    """Return the least demand of so many jobs that show this SM activity together."""
    low, high = shown, float(jobs)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        seen = total_activity(middle, jobs, mps=mps, loss=loss)
        low, high = (middle, high) if seen < shown else (low, middle)
    return low


def _origin(job: Job, offer: Offer) -> str:
    """Return what users should know of a job's SM activity on a device; "" for nothing."""
    if job.smact_in(offer.mode) is None:
        if job.predicted(Quantity.USUAL_SMACT) is not None:
            return " (assumed, usual here; see --smact)"
        return " (assumed; see --smact)"
    best = job.estimate(Quantity.SMACT)
    if best is None or best.chip is None or best.on(offer.device.chip) is best:
        return ""
    return f" (scaled from {best.chip.name})"


def _is_known(offer: Offer) -> bool:
    """Return whether the SM activity of each job on a device is measured or predicted."""
    known = all(occupant.smact is not None for occupant in offer.occupants)
    return known and bool(offer.occupants)


def _speeds(offer: Offer, demands: Sequence[float]) -> tuple[float, ...]:
    clients = _clients(offer, len(demands))
    found = [Demand(smact) for smact in demands]
    return mixed_speeds(found, clients, loss=_loss(offer, clients))


def _clients(offer: Offer, count: int) -> list[bool]:
    """Return which of so many demands on a device are of MPS clients: those of its jobs, perhaps
    after that of unmanaged processes and before that of the new job."""
    mps = offer.mode is Collocation.MPS
    there = [each.attempt.placement.collocation is Collocation.MPS for each in offer.occupants]
    if not there:
        return [mps] * count
    return [*there, mps][:count]


def _loss(offer: Offer, clients: Sequence[bool]) -> float | None:
    """Return what is learned of sharing in the way of these demands; None: nothing of it."""
    return offer.loss if all(clients) == (offer.mode is Collocation.MPS) else None


def _work(offer: Offer, demands: Sequence[float], widths: Sequence[int]) -> float:
    """Return the SM activity of a device with these demands of jobs on so many devices each."""
    clients = _clients(offer, len(demands))
    loss = _loss(offer, clients)
    return _work_of(tuple(demands), tuple(widths), tuple(clients), loss)


@lru_cache(_KEPT)
def _work_of(
    demands: tuple[float, ...],
    widths: tuple[int, ...],
    clients: tuple[bool, ...],
    loss: float | None,
) -> float:
    """Return the SM activity of a device, as `_work`.

    Jobs on several devices may meet on all of them. There they hold each other up, so each has its
    joint speed, and the other jobs get the rest.
    """
    found = [Demand(smact) for smact in demands]
    each = mixed_speeds(found, clients, loss=loss)
    wide = {at: width for at, width in enumerate(widths) if width > 1}
    if len(wide) > 1:
        fixed = {at: joint_speed([each[at]] * width) for at, width in wide.items()}
        each = mixed_speeds(found, clients, fixed=fixed, loss=loss)
    return activity(found, each)
