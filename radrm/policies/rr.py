"""Round-robin: devices take turns, whatever is on them."""

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

    Thesis, section 6.2.2. As published it looks at neither memory nor SM activity;
    `conditions` on makes it pass over devices beyond the thresholds. Its state is the
    place last given, so a restart goes on from there, and a device that has vanished
    since or come anew moves nobody else's turn.
    """

    conditions: bool = False
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
    """The place last given; None where none was."""
    if state is None:
        return None
    node, index, uuid = state
    return node, index, uuid
