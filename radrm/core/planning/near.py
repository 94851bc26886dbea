"""Which idle devices are near one another, for a job on several.

Theory of operation
-------------------
The policy chooses first, without regard to nearness. If all that it chose are idle and of one
type, every other idle eligible device of that type is as good: small differences between idle
devices do not count. Then the policy chooses again, from one group of such devices:

1. linked by NVLink and on one NUMA node; else
2. linked by NVLink; else
3. below one PCIe switch; else
4. below one PCIe host bridge; else
5. on one NUMA node.

Of several groups with enough devices it gets the smallest, so that large ones stay for wider
jobs. If no group has enough, or the policy chose busy devices, the first choice stands.

In a mesh, as in a DGX-1, not all GPUs are linked, and some by more links than others. A group is
then a set of GPUs each of which is linked to each; those with the most links come first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from radrm.core.records import Device
from radrm.core.view import Offer

_LEVELS: tuple[Callable[[Device], tuple[int | None, ...]], ...] = (
    lambda device: (device.nvlink_group, device.numa_node),
    lambda device: (device.nvlink_group,),
    lambda device: (device.pcie_switch,),
    lambda device: (device.host_bridge,),
    lambda device: (device.numa_node,),
)
_MOST_MESHED = 16
"""GPUs of a mesh that are compared. It has at most 3^(16/3) groups, about 350."""


def find_near(chosen: Sequence[Offer], eligible: Sequence[Offer]) -> Sequence[Offer] | None:
    """Return the devices from which the policy chooses again; None: its first choice stands."""
    if len(chosen) < 2 or not any(_is_known(offer.device) for offer in eligible):
        return None
    first, wanted = chosen[0], _type(chosen[0])
    if not all(offer.idle and _type(offer) == wanted for offer in chosen):
        return None
    equals = [offer for offer in eligible if offer.idle and _type(offer) == wanted]
    for groups in _levels(equals):
        enough = [group for group in groups if len(group) >= len(chosen)]
        if enough:
            found = min(enough, key=lambda group: (len(group), first not in group))
            return found if len(found) < len(equals) else None
    return None


def _levels(equals: Sequence[Offer]) -> Iterator[list[list[Offer]]]:
    """Yield the groups of each level, the nearest devices first."""
    meshed = [offer for offer in equals if offer.device.nvlinks]
    if 1 < len(meshed) <= _MOST_MESHED:
        yield from _meshes(meshed)
    for level in _LEVELS:
        groups: dict[Hashable, list[Offer]] = {}
        for offer in equals:
            place = level(offer.device)
            if None not in place:
                groups.setdefault((offer.device.node, place), []).append(offer)
        yield list(groups.values())


def _meshes(meshed: Sequence[Offer]) -> Iterator[list[list[Offer]]]:
    """Yield the groups of GPUs with at least so many links between each two: on one NUMA node,
    then on any."""
    links = {(at, peer): n for at, o in enumerate(meshed) for peer, n in o.device.nvlinks}
    for least in sorted(set(links.values()), reverse=True):
        for near in (True, False):
            peers: dict[int, set[int]] = {
                at: {
                    there
                    for there, other in enumerate(meshed)
                    if links.get((at, other.device.index), 0) >= least
                    and _together(offer.device, other.device, near)
                }
                for at, offer in enumerate(meshed)
            }
            yield [[meshed[at] for at in sorted(group)] for group in _cliques(peers)]


def _together(one: Device, other: Device, near: bool) -> bool:
    """Whether two devices are in one server, and on one NUMA node if `near`."""
    if one.node != other.node:
        return False
    return not near or (one.numa_node is not None and one.numa_node == other.numa_node)


def _cliques(peers: Mapping[int, set[int]]) -> Iterator[set[int]]:
    """Yield each largest set of nodes of a graph in which all are peers.

    Bron and Kerbosch, "Algorithm 457" (Communications of the ACM, 1973), with a pivot.
    """

    def grow(found: set[int], open_: set[int], done: set[int]) -> Iterator[set[int]]:
        if not open_ and not done:
            yield found
            return
        pivot = max(open_ | done, key=lambda at: len(peers[at] & open_))
        for at in sorted(open_ - peers[pivot]):
            yield from grow(found | {at}, open_ & peers[at], done & peers[at])
            open_, done = open_ - {at}, done | {at}

    yield from grow(set(), set(peers), set())


def _is_known(device: Device) -> bool:
    if device.nvlink_group is not None or device.numa_node is not None or device.nvlinks:
        return True
    return device.pcie_switch is not None or device.host_bridge is not None


def _type(offer: Offer) -> Hashable:
    return offer.device.name, offer.device.total_mib, offer.mode
