"""The conditions that the sharing policies of the literature have in common.

What a policy adds is its preference among the devices that pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Refusal
from radrm.core.rules import Ask
from radrm.core.units import show_mib
from radrm.core.view import Offer
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class Sharing:
    """Free memory of at least max(`min_free_mib`, need + `margin_mib`), SMACT of at most
    `max_smact` (`timeslice_max_smact` where jobs would take turns); on an idle device it
    suffices that the need fits, which the core sees to.

    RAD-RM thesis, section 6.2.2: 5 GiB (the smallest MIG slice) and 80 %; the margin of
    2 GiB is section 6.3.3's allowance for the fragmentation of a GPU's memory. The limit for
    time-slices is ours: GPUs whose jobs take turns never show how much is asked of them, and
    with 80 % sharing costs more than it gains there (docs/reproduction.md).

    A job of unknown need is promised `floor_mib`, and finds room where that much is free.
    `conditions` off gives the thesis' "no condition" variants (section 6.4.2, Table 6.3):
    nothing is refused for memory or SM activity, and what does not fit dies and is
    recovered. Raises ValueError for an SMACT outside 0..1.
    """

    min_free_mib: int = 5120
    margin_mib: int = 2048
    max_smact: float = 0.80
    timeslice_max_smact: float = 0.50
    floor_mib: int = 5120
    conditions: bool = True
    whole_device: bool = False

    def __post_init__(self) -> None:
        for name in ("max_smact", "timeslice_max_smact"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)} is not a fraction from 0 to 1")

    @property
    def overcommits(self) -> bool:
        """Without conditions a job may be placed where its need does not fit."""
        return not self.conditions

    def wanted_mib(self, ask: Ask) -> int:
        """The free memory that makes a busy device eligible."""
        if ask.need_mib is None:
            return max(self.min_free_mib, self.floor_mib)
        return max(self.min_free_mib, ask.need_mib + self.margin_mib)

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        if offer.idle or not self.conditions:
            return None
        return self._refuse_memory(ask, offer) or self._refuse_smact(offer)

    def _refuse_memory(self, ask: Ask, offer: Offer) -> Refusal | None:
        uuid, free, wanted = offer.device.uuid, offer.free_mib, self.wanted_mib(ask)
        if free is None:
            return Refusal("memory", "its free memory is unknown", uuid, wanted)
        if free < wanted:
            why = f"{show_mib(wanted)} free wanted (margin included), {show_mib(free)} there"
            return Refusal("memory", why, uuid, wanted, free)
        return None

    def _refuse_smact(self, offer: Offer) -> Refusal | None:
        uuid, smact, most = offer.device.uuid, offer.smact, self.max_smact
        if offer.mode is Collocation.TIMESLICE:
            most = min(most, self.timeslice_max_smact)
        if smact is None:
            return Refusal("smact", offer.smact_doubt or "its SM activity is unknown", uuid, most)
        if smact > most:
            why = f"SM activity of at most {most:.2f} wanted, it is {smact:.2f}"
            return Refusal("smact", why, uuid, most, smact)
        return None


@dataclass(frozen=True, slots=True)
class Fitting(Sharing):
    """The oracle policies' conditions: need + `margin_mib` and SMACT, no least free memory.

    RAD-RM thesis, section 6.3.3. An oracle knows every need; where one is unknown,
    `floor_mib` stands for it, margin and all.
    """

    min_free_mib: int = 0

    def wanted_mib(self, ask: Ask) -> int:
        need = self.floor_mib if ask.need_mib is None else ask.need_mib
        return max(self.min_free_mib, need + self.margin_mib)
