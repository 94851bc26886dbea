"""The nodes of tasks that use no GPU: one with room, near the job's GPUs if possible.

A task on a GPU is on its GPU's node. With one node there is nothing to choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from radrm.core.records import LOCAL_NODE, NodeUse, Share
from radrm.core.view import View


def put_on_nodes(view: View, shares: Sequence[Share], beside: Iterable[Share]) -> list[Share]:
    """Return the shares of tasks without a GPU, each on a node.

    `beside`: shares of the same job that are not booked yet. Their nodes come first, then those
    with the most free CPUs. A task goes to the first one with room beside the tasks before it. If
    none has room, it goes to the first of all: the check of the placement tells what lacks.
    """
    known = view.nodes()
    others = list(beside)
    if len(known) < 2:
        name = known[0].node.name if known else others[0].node if others else LOCAL_NODE
        return [replace(share, node=name) for share in shares]
    near = {share.node for share in others if share.device is not None}
    order = sorted(known, key=lambda use: (use.node.name not in near, -_cpus(use), use.node.name))
    tasks = {(share.role, share.task): share for share in others}
    found: list[Share] = []
    for share in shares:
        fitting = (u for u in order if _has_room(u, share, [*tasks.values(), *found]))
        use = next(fitting, order[0])
        found.append(replace(share, node=use.node.name))
    return found


def _cpus(use: NodeUse) -> float:
    return float("inf") if use.cpus_free is None else use.cpus_free


def _has_room(use: NodeUse, share: Share, beside: Iterable[Share]) -> bool:
    """Return whether a node has room for a task beside these tasks of the job."""
    here = [share, *(each for each in beside if each.node == use.node.name)]
    cpus, mib = sum(s.cpus or 0.0 for s in here), sum(s.memory_mib or 0 for s in here)
    enough = use.cpus_free is None or cpus <= use.cpus_free
    return enough and (use.memory_free_mib is None or mib <= use.memory_free_mib)
