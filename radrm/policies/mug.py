"""Most Utilized GPU: fill the busy devices first, so that idle ones stay idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.policies.sharing import Sharing


@dataclass(frozen=True, slots=True)
class Mug(Sharing):
    """RAD-RM's *MUG*: argmax of SMACT over the eligible devices, idle devices last.

    Thesis, section 6.2.2 and Figure 6.4. A busy device of unknown activity (eligible
    only without conditions) comes after the measured ones and before the idle ones. Ties
    go by index.
    """

    name: str = "mug"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        return sorted(eligible, key=_merit)[: ask.gpus], state


def _merit(offer: Offer) -> tuple[bool, bool, float, int]:
    return offer.idle, offer.smact is None, -(offer.smact or 0.0), offer.device.index
