"""A node of 8 CPUs and 64 GiB for tests, and what is booked of it."""

from __future__ import annotations

from radrm.core.records import LOCAL_NODE, Node
from tests.world import GIB, World

NODE = Node(LOCAL_NODE, cpus=8.0, memory_mib=64 * GIB)


def booked(world: World) -> tuple[float, int]:
    (use,) = world.scheduler.snapshot.nodes
    return use.cpus_booked, use.memory_booked_mib
