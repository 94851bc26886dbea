"""Most Available GPU Memory: among devices with room, the one with the most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Refusal
from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.policies.sharing import refuse_crowded


@dataclass(frozen=True, slots=True)
class Magm:
    """RAD-RM's *MAGM* (thesis, section 6.2.2).

    `min_free_mib`, `margin_mib` and `max_smact` (0..1) are the published
    thresholds; a job of unknown need is promised `floor_mib`.
    """

    min_free_mib: int = 5120
    margin_mib: int = 2048
    max_smact: float = 0.80
    floor_mib: int = 5120
    name: str = "magm"
    version: int = 1
    whole_device: bool = False

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        return refuse_crowded(
            ask,
            offer,
            min_free_mib=self.min_free_mib,
            margin_mib=self.margin_mib,
            max_smact=self.max_smact,
        )

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        most_first = sorted(eligible, key=lambda o: (-(o.free_mib or 0), o.device.index))
        return most_first[: ask.gpus], state
