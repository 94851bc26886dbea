"""Packing: share a GPU where the model of interference predicts that the whole gains.

Theory of operation
-------------------
The policy knows each job's SM activity alone: measured, else predicted, else `assumed_smact`. A
device's *demand* is the sum over its jobs. From it the model (`radrm/interference/model.py`)
predicts every job's speed, so a device that has just taken a job needs no new readings before it
takes the next one.

Predictions may be wrong. Under MPS a device below `_SATURATED` of the ceiling delivers what its
jobs demand, so its measured SM activity replaces the sum there. Above, readings cannot tell how
much more the jobs demand, and a time-sliced device never shows its demand: there the larger of the
two counts. What a device without jobs shows is the demand of unmanaged processes.

The model's weights of shares depend on batch size and family, which a policy does not see. All
jobs count alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Job, Refusal
from radrm.core.rules import Ask
from radrm.core.units import show_mib
from radrm.core.view import Offer
from radrm.core.words import Collocation, Quantity
from radrm.interference.model import (
    CEILING,
    UNKNOWN_SMACT,
    Demand,
    activity,
    joint_speed,
    mixed_speeds,
)

_SATURATED = 0.80 / CEILING
"""Below this part of the ceiling a GPU under MPS delivers nearly all that its jobs demand."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Packing:
    """Place each job where it adds most to the work that the server completes.

    A busy device must have free memory for the need and `margin_mib`, and the sum of its jobs' SM
    activity must not exceed `max_demand`. A job joins only if all jobs there then complete no less
    work together than before; large jobs that would be time-sliced wait for idle devices. No
    job's predicted slowdown exceeds its `--max-slowdown`, or `max_slowdown`. The device with the
    least demand is best. Jobs on several devices keep apart while they can, and always if together
    they would complete less: each waits for its slowest device, and they would slow one another
    on all of them.
    """

    max_demand: float = 1.6
    """The largest sum of SM activity on a shared device."""
    timeslice_max_demand: float = 1.0
    """The same limit on a device where jobs would be time-sliced."""
    max_slowdown: float = 0.0
    """The largest predicted slowdown of any job, 1 or more; 0: no limit."""
    margin_mib: int = 2048
    """The free memory of a busy device beyond the need, against fragmentation."""
    new_margin_mib: int = 5120
    """The same, if the need is estimated and the SM activity unknown."""
    floor_mib: int = 5120
    """A job of unknown need reserves this much, and needs this much free memory."""
    assumed_smact: float = UNKNOWN_SMACT
    """The SM activity of a job whose own is neither measured nor predicted."""
    ceiling: float = CEILING
    """The most SM activity of a shared device. `radrm replay --advise` fits it to your runs."""
    whole_device: bool = False
    name: str = "packing"
    version: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.assumed_smact <= 1:
            raise ValueError(f"assumed_smact = {self.assumed_smact} is not a fraction from 0 to 1")
        if not 0.5 <= self.ceiling <= 1:
            raise ValueError(f"ceiling = {self.ceiling} is not a fraction from 0.5 to 1")
        if 0 < self.max_slowdown < 1:
            raise ValueError(f"max_slowdown must be 0 or at least 1, not {self.max_slowdown}")

    @property
    def overcommits(self) -> bool:
        return False

    @property
    def honours_slowdown(self) -> bool:
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
        wanted = (self.floor_mib if ask.need_mib is None else ask.need_mib) + margin
        if free is None:
            return Refusal("memory", "its free memory is unknown", uuid, wanted)
        if free < wanted:
            why = f"needs {show_mib(wanted)} (margin included), {show_mib(free)} free"
            return Refusal("memory", why, uuid, wanted, free)
        return None

    def _refuse_load(self, ask: Ask, offer: Offer) -> Refusal | None:
        uuid, here, own = offer.device.uuid, self._demands(offer), self._smact(ask.job, offer)
        if offer.smact is None and not _is_known(offer):
            # Its jobs' memory is not known yet, either: they are still starting.
            return Refusal("smact", offer.smact_refusal or "its SM activity is unknown", uuid, 1.0)
        most = self.max_demand
        if offer.mode is Collocation.TIMESLICE:
            most = min(most, self.timeslice_max_demand)
        if sum(here) + own > most:
            left = max(0.0, most - sum(here))
            shown = f"{own:.2f}{_origin(ask.job, offer)}"
            why = f"needs SM activity of {shown}, {left:.2f} of the allowed {most:.2f} are left"
            return Refusal("demand", why, uuid, own, left)
        widths = [*(holder.job.spec.gpus for holder in offer.holders), ask.job.spec.gpus]
        widths = [1] * (len(here) + 1 - len(widths)) + widths
        before = _work(offer, self.ceiling, here, widths[:-1])
        gain = _work(offer, self.ceiling, [*here, own], widths) - before
        if gain < -_ROUNDING:
            why = f"the jobs there would do less work together than now ({gain:.2f})"
            return Refusal("gain", why, uuid, 0.0, gain)
        return self._refuse_slowdown(ask, offer, [*here, own])

    def _refuse_slowdown(self, ask: Ask, offer: Offer, together: Sequence[float]) -> Refusal | None:
        jobs = [*(holder.job for holder in offer.holders), ask.job]
        limits = [self._limit(job) for job in jobs]
        if not any(limits):
            return None
        found = _speeds(offer, self.ceiling, together)[-len(jobs) :]
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
            apart = ask.gpus > 1 and any(holder.job.spec.gpus > 1 for holder in offer.holders)
            return apart, sum(here), -(offer.free_mib or 0), offer.device.index

        return sorted(eligible, key=merit)[: ask.gpus], state

    # ------------------------------------------------------------- SM activity

    def _smact(self, job: Job, offer: Offer) -> float:
        found = job.smact_in(offer.mode, offer.device)
        return self.assumed_smact if found is None else found

    def _demands(self, offer: Offer) -> list[float]:
        """Return the SM activity that each job on a device would show alone.

        Before it stands that of unmanaged processes, if there is no job.
        """
        found = [
            self.assumed_smact if holder.smact is None else holder.smact for holder in offer.holders
        ]
        total, shown = sum(found), offer.smact
        if not found and not offer.idle:
            return [self.assumed_smact if shown is None else shown]
        if shown is None or not found:
            return found
        if shown > total:
            # Each job may be the one that does more than was predicted.
            return [each + (shown - total) / len(found) for each in found]
        if offer.mode is not Collocation.MPS or shown >= _SATURATED * self.ceiling or not total:
            return found
        return [each * shown / total for each in found]


def _origin(job: Job, offer: Offer) -> str:
    """Return what users should know of a job's SM activity on a device; "" for nothing."""
    if job.smact_in(offer.mode) is None:
        return " (assumed; see --smact)"
    best = job.estimate(Quantity.SMACT)
    if best is None or best.chip is None or best.on(offer.device.chip) is best:
        return ""
    return f" (scaled from {best.chip.name})"


def _is_known(offer: Offer) -> bool:
    """Return whether the SM activity of each job on a device is measured or predicted."""
    known = all(holder.smact is not None for holder in offer.holders)
    return known and bool(offer.holders)


def _speeds(offer: Offer, ceiling: float, demands: Sequence[float]) -> tuple[float, ...]:
    found = [Demand(smact) for smact in demands]
    return mixed_speeds(found, _clients(offer, len(demands)), ceiling=ceiling)


def _clients(offer: Offer, count: int) -> list[bool]:
    """Return which of so many demands on a device are of MPS clients: those of its jobs, perhaps
    after that of unmanaged processes and before that of the new job."""
    mps = offer.mode is Collocation.MPS
    there = [each.attempt.placement.collocation is Collocation.MPS for each in offer.holders]
    if not there:
        return [mps] * count
    return [*there, mps][:count]


def _work(offer: Offer, ceiling: float, demands: Sequence[float], widths: Sequence[int]) -> float:
    """Return the SM activity of a device with these demands of jobs on so many devices each.

    Jobs on several devices may meet on all of them. There they hold each other up, so each has its
    joint speed, and the other jobs get the rest.
    """
    found, clients = [Demand(smact) for smact in demands], _clients(offer, len(demands))
    each = mixed_speeds(found, clients, ceiling=ceiling)
    wide = {at: width for at, width in enumerate(widths) if width > 1}
    if len(wide) > 1:
        fixed = {at: joint_speed([each[at]] * width) for at, width in wide.items()}
        each = mixed_speeds(found, clients, fixed=fixed, ceiling=ceiling)
    return activity(found, each)
