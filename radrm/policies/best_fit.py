"""Best fit: the fullest device that still has room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.policies.sharing import Fitting


@dataclass(frozen=True, slots=True)
class BestFit(Fitting):
    """RAD-RM's *Oracle Best Fit*: argmin of free memory over the devices that fit.

    Thesis, section 6.3.3: free >= need + 2 GiB and SMACT <= 80 %. A device whose free
    memory is unknown (eligible only without conditions) comes last. Ties go by index.
    """

    name: str = "best-fit"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        return sorted(eligible, key=_merit)[: ask.gpus], state


def _merit(offer: Offer) -> tuple[bool, int, int]:
    return offer.free_mib is None, offer.free_mib or 0, offer.device.index
