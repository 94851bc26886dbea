"""First fit: the first device with room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.policies.sharing import Fitting


@dataclass(frozen=True, slots=True)
class FirstFit(Fitting):
    """RAD-RM's *Oracle First Fit*: the first device, by index, of those that fit.

    Thesis, section 6.3.3: free >= need + 2 GiB and SMACT <= 80 %.
    """

    name: str = "first-fit"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        return sorted(eligible, key=lambda o: o.device.index)[: ask.gpus], state
