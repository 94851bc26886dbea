"""Least Utilized GPU: among devices with room, the one with the lowest SM activity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.policies.sharing import Sharing


@dataclass(frozen=True, slots=True)
class Lug(Sharing):
    """RAD-RM's *LUG*: argmin of SMACT over the eligible devices.

    Thesis, section 6.2.2; with known needs it is the oracle's OLUG (section 6.3.3). An
    idle device without a measurement counts as 0, since no job is on it. A busy device of
    unknown activity (eligible only without conditions) comes last. Ties go by index.
    """

    name: str = "lug"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        return sorted(eligible, key=_merit)[: ask.gpus], state


def _merit(offer: Offer) -> tuple[bool, float, int]:
    unknown = offer.smact is None and not offer.idle
    return unknown, offer.smact or 0.0, offer.device.index
