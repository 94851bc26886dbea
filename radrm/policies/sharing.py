"""The conditions that the sharing policies of the literature have in common.

A policy adds its preference among the devices that meet the conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from radrm.core.records import Refusal
from radrm.core.rules import Ask
from radrm.core.units import show_mib
from radrm.core.view import Offer
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class Sharing:
    """A busy device must have free memory and SM activity within limits.

    On an idle device the need only has to fit, which the core checks.

    RAD-RM thesis, section 6.2.2: 5 GiB (the smallest MIG slice) and 80 %. The margin of 2 GiB
    is section 6.3.3's allowance for the fragmentation of a GPU's memory. The limit for
    time-slicing is ours: such a GPU never shows its full demand, and with 80 % sharing costs
    more there than it gains (docs/reproduction.md). Raises ValueError for an SM activity
    outside 0..1.
    """

    min_free_mib: int = 5120
    """A busy device must have this much free memory, and at least need + `margin_mib`. An idle
    device only needs room for the job."""
    margin_mib: int = 2048
    """The margin for fragmentation; see `min_free_mib`."""
    max_smact: float = 0.80
    """A busy device above this SM activity is refused."""
    timeslice_max_smact: float = 0.50
    """The same limit on a device where jobs would be time-sliced."""
    floor_mib: int = 5120
    """A job of unknown need reserves this much, and needs this much free memory."""
    conditions: bool = True
    """`false`: memory and SM activity refuse no device (thesis, Table 6.3)."""
    whole_device: bool = False
    steady_refusals: ClassVar[frozenset[str]] = frozenset({"memory"})

    def __post_init__(self) -> None:
        for name in ("max_smact", "timeslice_max_smact"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)} is not a fraction from 0 to 1")

    @property
    def overcommits(self) -> bool:
        """Return whether a job may be placed where its need does not fit."""
        return not self.conditions

    def wanted_mib(self, ask: Ask) -> int:
        """Return the free memory that a busy device must have."""
        if ask.need_mib is None:
            return max(self.min_free_mib, self.floor_mib)
        return max(self.min_free_mib, ask.need_mib + ask.margin_mib(self.margin_mib))

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        if offer.idle or not self.conditions:
            return None
        return self._refuse_memory(ask, offer) or self._refuse_smact(offer)

    def _refuse_memory(self, ask: Ask, offer: Offer) -> Refusal | None:
        uuid, free, wanted = offer.device.uuid, offer.free_mib, self.wanted_mib(ask)
        if free is None:
            return Refusal("memory", "its free memory is unknown", uuid, wanted)
        if free < wanted:
            why = f"needs {show_mib(wanted)} (margin included), {show_mib(free)} free"
            return Refusal("memory", why, uuid, wanted, free)
        return None

    def _refuse_smact(self, offer: Offer) -> Refusal | None:
        uuid, smact, most = offer.device.uuid, offer.smact, self.max_smact
        if offer.mode is Collocation.TIMESLICE:
            most = min(most, self.timeslice_max_smact)
        if smact is None:
            return Refusal("smact", offer.smact_refusal or "its SM activity is unknown", uuid, most)
        if smact > most:
            why = f"needs SM activity of at most {most:.2f}, it is {smact:.2f}"
            return Refusal("smact", why, uuid, most, smact)
        return None


@dataclass(frozen=True, slots=True)
class Fitting(Sharing):
    """The conditions of the oracle policies: RAD-RM thesis, section 6.3.3."""

    min_free_mib: int = 0
    floor_mib: int = 5120
    """A job of unknown need counts as if it needed this much."""

    def wanted_mib(self, ask: Ask) -> int:
        need = self.floor_mib if ask.need_mib is None else ask.need_mib
        return max(self.min_free_mib, need + ask.margin_mib(self.margin_mib))
