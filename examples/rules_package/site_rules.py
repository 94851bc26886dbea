"""Two rules of a site: jobs whose due time is near go first, and busy GPUs are filled first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.rules import Ask, Instant, Job, Offer, Order, Quantity, Refusal, UserUse


@dataclass(frozen=True)
class DueFirst(Order):
    """Users with little recent GPU time first. Among these, jobs that are due soon first."""

    near_s: float = 7200.0
    """A job that is due within this time goes before those that are not."""
    heavy_gpu_s: float = 360_000.0
    """Users with more recent GPU time than this go last."""
    name: str = "due-first"

    def rank(self, use: UserUse) -> tuple[bool]:
        return (use.own.gpu_s > self.heavy_gpu_s,)

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        left_s = self._left_s(job, now)
        if left_s is None or left_s > self.near_s:
            return (1, *job.place)
        return (0, job.spec.due_s or 0.0)

    def changes_s(self, job: Job, now: Instant) -> float | None:
        left_s = self._left_s(job, now)
        if left_s is None or left_s <= self.near_s:
            return None
        return now.boot_s + left_s - self.near_s

    def bound(self, job: Job, now: Instant) -> str | None:
        return "jobs that are due sooner may pass it" if job.spec.due_s is not None else None

    def _left_s(self, job: Job, now: Instant) -> float | None:
        return None if job.spec.due_s is None else job.spec.due_s - now.wall_s


@dataclass(frozen=True)
class PackActive:
    """Fill the busiest GPU whose jobs together have at most this SM activity."""

    most_smact: float = 1.2
    """The largest sum of the SM activities that the jobs on a GPU would have alone."""
    floor_mib: int = 4096
    """The memory to reserve for a job of unknown need."""
    name: str = "pack-active"
    version: int = 1

    @property
    def whole_device(self) -> bool:
        return False

    @property
    def overcommits(self) -> bool:
        return False

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        if offer.idle:
            return None
        need_mib = self.floor_mib if ask.need_mib is None else ask.need_mib
        if offer.free_mib is None or offer.free_mib < need_mib:
            why = f"needs {need_mib} MiB, {offer.free_mib} free"
            return Refusal("memory", why, offer.device.uuid, need_mib, offer.free_mib)
        smact = self._together(offer)
        mine = ask.job.predicted(Quantity.SMACT)
        if smact is None or mine is None:
            return Refusal("activity", "an SM activity is unknown", offer.device.uuid)
        if smact + mine > self.most_smact:
            why = f"SM activity {smact:.2f} + {mine:.2f}, most_smact is {self.most_smact:.2f}"
            return Refusal("activity", why, offer.device.uuid, mine, self.most_smact - smact)
        return None

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        busiest = sorted(eligible, key=lambda offer: -(self._together(offer) or 0.0))
        return busiest[: ask.gpus], state

    def _together(self, offer: Offer) -> float | None:
        """Return the sum of the jobs' own SM activities; None if one is unknown."""
        known = [occupant.smact for occupant in offer.occupants if occupant.smact is not None]
        return sum(known) if len(known) == len(offer.occupants) else None
