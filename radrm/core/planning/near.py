"""Devices that are near each other, for a job on several.

The policy chooses first, without regard to nearness. If all that it chose are idle and of one
type, every other idle eligible device of that type is as good: small differences between idle
devices do not count. Then the policy chooses again, from one group of such devices:

1. linked by NVLink and on one NUMA node; else
2. linked by NVLink; else
3. on one NUMA node.

Of several groups with enough devices it gets the smallest, so that large ones stay for wider
jobs. If no group has enough, or the policy chose busy devices, the first choice stands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from radrm.core.records import Device
from radrm.core.view import Offer

_LEVELS: tuple[Callable[[Device], tuple[int | None, ...]], ...] = (
    lambda device: (device.nvlink_group, device.numa_node),
    lambda device: (device.nvlink_group,),
    lambda device: (device.numa_node,),
)


def find_near(chosen: Sequence[Offer], eligible: Sequence[Offer]) -> Sequence[Offer] | None:
    """Return the devices from which the policy chooses again; None: its first choice stands."""
    if len(chosen) < 2 or not any(_is_known(offer.device) for offer in eligible):
        return None
    first, wanted = chosen[0], _type(chosen[0])
    if not all(offer.idle and _type(offer) == wanted for offer in chosen):
        return None
    equals = [offer for offer in eligible if offer.idle and _type(offer) == wanted]
    for level in _LEVELS:
        groups: dict[Hashable, list[Offer]] = {}
        for offer in equals:
            place = level(offer.device)
            if None not in place:
                groups.setdefault((offer.device.node, place), []).append(offer)
        enough = [group for group in groups.values() if len(group) >= len(chosen)]
        if enough:
            found = min(enough, key=lambda group: (len(group), first not in group))
            return found if len(found) < len(equals) else None
    return None


def _is_known(device: Device) -> bool:
    return device.nvlink_group is not None or device.numa_node is not None


def _type(offer: Offer) -> Hashable:
    return offer.device.name, offer.device.total_mib, offer.mode
