"""Which GPUs are near each other, and which CPUs are near a GPU.

It is asked once per list of devices. No reading needs it, so an error here means unknown.

NVML's P2P status for NVLink also counts links through NVSwitch. How many links join two GPUs is
told by the far end of each active link; through a switch that is unknown, and all pairs are
equal. A GPU that reports links, of which none is active, has no NVLink, whatever its status says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from msgspec import Struct

from radrm.host.gpus.nvml.library import Library
from radrm.host.processes.affinity import MOST_CPUS, listed

MOST_GPUS = 16
"""GPUs of a server that are compared: 120 pairs. With more GPUs, their nearness is unknown."""

# NVML's own numbers.
_P2P_NVLINK, _P2P_OK = 2, 0
_MOST_LINKS = 36
_SWITCHES, _HOST_BRIDGE = 20, 30
"""Two GPUs have only PCIe switches between them; at most one PCIe host bridge."""
SCOPE_NODE, SCOPE_SOCKET = 0, 1
_BITS = 64
_NODE_WORDS, _CPU_WORDS = 4, MOST_CPUS // _BITS

Pair = tuple[int, int]


def numa_node(library: Library, gpu: Any) -> int | None:
    """Return the NUMA node that is nearest to a GPU; None if it is unknown, or several are."""
    words = library.call_or_none("nvmlDeviceGetMemoryAffinity", gpu, _NODE_WORDS, SCOPE_NODE)
    nodes = _bits(words)
    return nodes.pop() if len(nodes) == 1 else None


def near_cpus(library: Library, gpu: Any, scope: int) -> str | None:
    """Return the CPUs of a GPU's NUMA node or socket that radrm may use, as the kernel lists them.

    None if the CPUs are unknown, or radrm may use none of them: the driver's mask can be empty, and
    can name CPUs that are offline or outside the daemon's own affinity.
    """
    words = library.call_or_none("nvmlDeviceGetCpuAffinityWithinScope", gpu, _CPU_WORDS, scope)
    return listed(_bits(words) & os.sched_getaffinity(0)) or None


def _bits(words: Any) -> set[int]:
    """Return the numbers of the bits that are set in an array of 64-bit words."""
    return {
        _BITS * place + bit
        for place, word in enumerate(words or ())
        if word
        for bit in range(_BITS)
        if word >> bit & 1
    }


class Near(Struct, frozen=True):
    """Which GPUs are near one: the fields of this name of `Device`."""

    nvlink_group: int | None = None
    nvlinks: tuple[Pair, ...] = ()
    pcie_switch: int | None = None
    host_bridge: int | None = None


def near_gpus(library: Library, gpus: Mapping[int, Any]) -> dict[int, Near]:
    """Return what is near each of these GPUs, by index. A group is named by its lowest index."""
    if len(gpus) > MOST_GPUS:
        return {}
    links = _nvlinks(library, gpus)
    groups = _groups(gpus, lambda *pair: pair in links)
    # In a group whose GPUs are linked unequally, some pairs are better than others.
    equal = {
        index: group
        for index, group in groups.items()
        if len({links[pair] for pair in links if groups.get(pair[0]) == group}) == 1
    }
    above = _common_ancestors(library, gpus)

    def within(level: int) -> dict[int, int]:
        return _groups(gpus, lambda *pair: above.get(pair, level + 1) <= level)

    switches, bridges = within(_SWITCHES), within(_HOST_BRIDGE)
    return {
        index: Near(
            equal.get(index),
            () if index in equal else _links_of(index, links),
            switches.get(index),
            bridges.get(index),
        )
        for index in gpus
    }


def _links_of(index: int, links: Mapping[Pair, int]) -> tuple[Pair, ...]:
    """Return the other GPUs that one is linked to, and by how many links."""
    found = [(sum(pair) - index, count) for pair, count in links.items() if index in pair]
    return tuple(sorted(found))


def _groups(gpus: Mapping[int, Any], are_near: Callable[[int, int], bool]) -> dict[int, int]:
    """Return the group of each GPU that is in one: there, each is near each.

    GPUs that are near some and form no such group have none, as in the mesh of a DGX-1.
    """
    peers = {index: {index} for index in gpus}
    for one, other in combinations(sorted(gpus), 2):
        if are_near(one, other):
            peers[one].add(other)
            peers[other].add(one)
    return {
        index: min(found)
        for index, found in peers.items()
        if len(found) > 1 and all(peers[other] == found for other in found)
    }


def _common_ancestors(library: Library, gpus: Mapping[int, Any]) -> dict[Pair, int]:
    """Return NVML's level of the nearest PCIe device above both GPUs of each pair, if known."""
    found = {
        pair: library.call_or_none("nvmlDeviceGetTopologyCommonAncestor", *(gpus[i] for i in pair))
        for pair in combinations(sorted(gpus), 2)
    }
    return {pair: level for pair, level in found.items() if level is not None}


# ------------------------------------------------------------------ NVLink


def _nvlinks(library: Library, gpus: Mapping[int, Any]) -> dict[Pair, int]:
    """Return the number of NVLinks of each pair that has any; 1 where it is not told."""
    linked = [
        pair
        for pair in combinations(sorted(gpus), 2)
        if library.call_or_none(
            "nvmlDeviceGetP2PStatus", *(gpus[index] for index in pair), _P2P_NVLINK
        )
        == _P2P_OK
    ]
    ends = {i: _far_ends(library, gpus[i]) for i in sorted({i for pair in linked for i in pair})}
    places = {i: _place(library.call_or_none("nvmlDeviceGetPciInfo", gpus[i])) for i in ends}
    found = {}
    for one, other in linked:
        if ends[one] != [] and ends[other] != []:
            at = places[other]
            found[one, other] = max(1, 0 if at is None else (ends[one] or []).count(at))
    return found


def _far_ends(library: Library, gpu: Any) -> list[Any] | None:
    """Return the PCI place at the far end of each active NVLink; None if no state is known."""
    states = [
        library.call_or_none("nvmlDeviceGetNvLinkState", gpu, link) for link in range(_MOST_LINKS)
    ]
    if set(states) == {None}:
        return None
    return [
        _place(library.call_or_none("nvmlDeviceGetNvLinkRemotePciInfo", gpu, link))
        for link, state in enumerate(states)
        if state
    ]


def _place(info: Any) -> tuple[int, int, int] | None:
    return None if info is None else (info.domain, info.bus, info.device)
