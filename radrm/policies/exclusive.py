"""Exclusive: idle devices only, one job each. The baseline, and the policy of recovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Refusal
from radrm.core.rules import Ask
from radrm.core.view import Offer


@dataclass(frozen=True, slots=True)
class Exclusive:
    """RAD-RM's *Exclusive* (thesis, section 6.2.2): any idle device; here the first.

    `floor_mib` has no meaning where a job has the whole device. Without `whole_device` other
    jobs may join later; recovered jobs are placed this way (section 6.2.1, step 7).
    """

    name: str = "exclusive"
    version: int = 1
    whole_device: bool = True

    @property
    def floor_mib(self) -> int:
        return 0

    @property
    def overcommits(self) -> bool:
        return False

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        uuid = offer.device.uuid
        if offer.job_ids:
            return Refusal("not idle", f"job {offer.job_ids[0]} is on it", uuid)
        if not offer.idle:
            return Refusal(
                "not idle", "its memory is reserved, or used by unmanaged processes", uuid
            )
        return None

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        return eligible[: ask.gpus], state
