"""Round-robin: the next device in a fixed cycle, with any load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.policies.sharing import Sharing

Place = tuple[str, int, str]
"""A device's place in the cycle: node, index, UUID."""


@dataclass(frozen=True, slots=True)
class RoundRobin(Sharing):
    """RAD-RM's *RR*: the next eligible devices in a fixed cycle, by index.

    Thesis, section 6.2.2. Its state is the device that it chose last, not a position: so the
    cycle continues after a restart, and a device that vanishes or returns moves no other turn.
    """

    conditions: bool = False
    """`false` (as published): neither memory nor SM activity counts. `true`: skip devices beyond
    the limits."""
    name: str = "rr"
    version: int = 1

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        last = _place_in(state)
        cycle = sorted(eligible, key=_place)
        after = [offer for offer in cycle if last is None or _place(offer) > last]
        chosen = (after + cycle[: len(cycle) - len(after)])[: ask.gpus]
        return chosen, list(_place(chosen[-1])) if chosen else state


def _place(offer: Offer) -> Place:
    return offer.device.node, offer.device.index, offer.device.uuid


def _place_in(state: Any) -> Place | None:
    """Return the device that was chosen last. None: no device was chosen yet."""
    if state is None:
        return None
    node, index, uuid = state
    return node, index, uuid
