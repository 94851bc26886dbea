"""Most Available GPU Memory: among devices with room, the one with the most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.policies.sharing import Sharing


@dataclass(frozen=True, slots=True)
class Magm(Sharing):
    """RAD-RM's *MAGM*: argmax of free memory over the eligible devices.

    Thesis, section 6.2.2; with known needs it is the oracle's worst fit (section 6.3.3).
    Ties go by index.
    """

    name: str = "magm"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        most_first = sorted(eligible, key=lambda o: (-(o.free_mib or 0), o.device.index))
        return most_first[: ask.gpus], state
