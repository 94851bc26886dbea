"""Whether the nodes of the partition fit: their resources, versions, and the GPUs of this node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from radrm.core.units import show_mib
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.health.slurm.facts import Node, Partition, value

_MOST = 4
"""The most nodes that one line names; it counts the others."""
_OF_GPUS = ("gpu", "shard", "mps")
"""Resources by which Slurm itself gives a job a GPU."""
_ROUNDED = 0.01
"""The part of its GPUs' memory that a node may leave out."""


def partition(found: Partition, nodes: Sequence[Node]) -> Finding:
    """Whether the partition has nodes and takes jobs."""
    name, state = "partition", value(found.fields, "State")
    if not nodes:
        return fail(name, f"{found.name} has no node", "name its Nodes= in slurm.conf")
    many = f"{found.name} has {len(nodes)} node{'s' if len(nodes) > 1 else ''}"
    if state != "UP":
        back = f"to use it again: scontrol update PartitionName={found.name} State=UP"
        return warn(name, f"{many}, and is {state or 'in no known state'}", back)
    return ok(name, many)


def counted(config: Mapping[str, str], gres: str, nodes: Sequence[Node]) -> Finding:
    """Whether slurmctld knows the counted resource, and each node has some of it."""
    name = f"GRES {gres}"
    types = [word.strip() for word in value(config, "GresTypes").split(",")]
    if gres not in types:
        unknown = f"GresTypes has no {gres}, so no job can ask for GPU memory"
        step = f"in slurm.conf add {gres} to GresTypes, restart slurmctld and all slurmd"
        return fail(name, unknown, step)
    without = [node.name for node in nodes if not node.gres.get(gres)]
    if without:
        none = f"{listed(without)} {_have(without)} none, so no job runs there"
        return fail(name, none, "on that node print its lines: radrm slurm setup")
    amounts = sorted({node.gres[gres] for node in nodes})
    ends = " to ".join(show_mib(mib) for mib in dict.fromkeys((amounts[0], amounts[-1])))
    return ok(name, f"each node has {ends} of GPU memory")


def given_twice(own: str, nodes: Iterable[Node]) -> Finding:
    """Whether Slurm itself gives away GPUs of these nodes, beside the radrm daemon there."""
    name = "GPUs given twice"
    found = [
        (node, words)
        for node in nodes
        if (words := [f"{n}:{c}" for n, c in node.gres.items() if n in _OF_GPUS and c])
    ]
    if not found:
        return ok(name, "no node has its GPUs as GRES gpu, too")
    who = listed([f"{node.name} ({','.join(words)})" for node, words in found])
    others = sorted({other for node, _ in found for other in node.partitions if other != own})
    if others:
        where = f"partition{'s' if len(others) > 1 else ''} {listed(others)}"
        effect = f"jobs of {where} get GPUs on which radrm runs jobs"
        step = f"remove gpu from Gres= of these nodes, or these nodes from {where}"
    else:
        effect = f"a job of partition {own} can ask Slurm for a GPU on which radrm runs jobs"
        step = "remove gpu from Gres= of these nodes"
    return warn(name, f"Slurm gives away GPUs of {who}, too: {effect}", step)


def this_node(node: Node | None, enabled: bool, host: str, partition: str) -> Finding:
    """Whether this server is a node of the partition, and its daemon takes the jobs."""
    name = "this server"
    if node is None:
        return ok(name, f"{host} is no node of partition {partition} (or set slurm.node)")
    if not enabled:
        off = f"it is node {node.name}, and its daemon takes no jobs of Slurm"
        step = "set enabled = true in [slurm] and restart the daemon; running jobs continue"
        return fail(name, off, step)
    return ok(name, f"it is node {node.name} of partition {partition}")


def memory(node: Node, gres: str, devices: Sequence[Mapping[str, Any]]) -> Finding:
    """Whether Slurm has the GPU memory of this node right.

    `devices`: what the daemon of this node says of its GPUs.
    """
    name, has_mib = "GPU memory", node.gres.get(gres, 0)
    gpus_mib = gpu_memory_mib(devices)
    if gpus_mib * (1 - _ROUNDED) <= has_mib <= gpus_mib:
        return ok(name, f"{node.name} has {gres}:{has_mib}, and its GPUs have {gpus_mib} MiB")
    more = has_mib > gpus_mib
    effect = "jobs wait there for memory that is not there" if more else "the rest stays unused"
    apart = f"{node.name} has {gres}:{has_mib} in Slurm, its GPUs have {gpus_mib} MiB: {effect}"
    return warn(name, apart, f"set {gres}:{gpus_mib} in Gres= of slurm.conf and in gres.conf")


def gpu_memory_mib(devices: Iterable[Mapping[str, Any]]) -> int:
    """Return the memory of the GPUs and MIG instances that take jobs."""
    return sum(d["total_mib"] or 0 for d in devices if d["state"] != "vanished")


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
