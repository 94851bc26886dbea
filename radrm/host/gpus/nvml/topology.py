"""Which GPUs are near each other: linked by NVLink, or on one NUMA node.

It is asked once per list of devices. No reading needs it, so an error here means unknown.
NVML's P2P status for NVLink also counts links through NVSwitch.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from radrm.host.gpus.nvml.library import Library

MOST_GPUS = 16
"""GPUs of a server that are compared: 120 pairs. With more GPUs, NVLink groups are unknown."""

# NVML's own numbers.
_P2P_NVLINK, _P2P_OK = 2, 0
_SCOPE_NODE = 0
_WORDS = 4  # of 64 NUMA nodes each


def numa_node(library: Library, gpu: Any) -> int | None:
    """Return the NUMA node that is nearest to a GPU; None if it is unknown, or several are."""
    words = library.call_or_none("nvmlDeviceGetMemoryAffinity", gpu, _WORDS, _SCOPE_NODE)
    nodes = [
        64 * place + bit
        for place, word in enumerate(words or ())
        for bit in range(64)
        if word >> bit & 1
    ]
    return nodes[0] if len(nodes) == 1 else None


def nvlink_groups(library: Library, gpus: Mapping[int, Any]) -> dict[int, int]:
    """Return the NVLink group of each GPU that is in one, by index: its lowest index.

    In a group each GPU is linked to each. GPUs whose links form no such group have none, as in
    the hybrid cube mesh of a DGX-1.
    """
    if len(gpus) > MOST_GPUS:
        return {}
    peers = {index: {index} for index in gpus}
    for one, other in combinations(gpus, 2):
        pair = gpus[one], gpus[other], _P2P_NVLINK
        if library.call_or_none("nvmlDeviceGetP2PStatus", *pair) == _P2P_OK:
            peers[one].add(other)
            peers[other].add(one)
    return {
        index: min(linked)
        for index, linked in peers.items()
        if len(linked) > 1 and all(peers[other] == linked for other in linked)
    }
