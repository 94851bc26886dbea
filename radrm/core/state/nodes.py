"""The CPUs and the host memory of nodes: what jobs can have, and what they have booked.

Theory of operation
-------------------
    free = capacity - sum over live jobs of what their tasks book; never below zero

A job books what the shares of its placements say: where it runs, where a resize or a migration
leads, and the caps that the host is about to apply. A task counts once on each node: all its shares
have the same figures. Of host memory each task books the most that any placement gives it: at a
resize new processes stand by beside the old ones. Of CPUs the placement with the largest sum on a
node counts, because the old and the new processes do not work at the same time: so tasks can
exchange CPUs on a full node. A task never books fewer CPUs than it asked for: a planner that lowers
its cap can raise it again. The CPUs of a task that asked for none are a cap by a planner: they are
not reserved for it, so not booked.

Invariants:
- Nothing is stored. Bookings follow from the records of jobs and attempts at each change, so a
  restart makes the same ones.
- CPUs are counted in thousandths, as whole numbers: no rounding error adds up.
- An unknown capacity (None) limits nothing.

What may interleave: the capacity may shrink below what is booked (a CPU is unplugged, the
configuration changes). No job is stopped; nothing is free until enough of them have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from radrm.core.records import LOCAL_NODE, Attempt, Job, Node, NodeUse, Placement
from radrm.core.units import milli
from radrm.core.words import ActionKind
from radrm.structs import replace


class Amount(Struct, frozen=True):
    """An amount of CPUs, in thousandths, and of host memory, in MiB."""

    milli_cpus: int = 0
    memory_mib: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.milli_cpus + other.milli_cpus, self.memory_mib + other.memory_mib)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.milli_cpus - other.milli_cpus, self.memory_mib - other.memory_mib)


NOTHING = Amount()


def booked_by(job: Job | None, placements: Iterable[Placement]) -> dict[str, Amount]:
    """Return what a job books on each node while it is in, or between, these placements."""
    roles = job.spec.roles if job is not None else ()
    asked = {role.name: role.needs.cpus for role in roles}
    cpus: dict[str, int] = {}
    memory: dict[_Task, int] = {}
    for placement in placements:
        of_task: dict[_Task, int] = {}
        for share in placement.shares:
            task = (share.node, share.role, share.task)
            if share.cpus is not None:
                needed = asked.get(share.role, share.cpus)
                of_task[task] = 0 if needed is None else max(milli(needed), milli(share.cpus))
            if share.memory_mib is not None:
                memory[task] = max(memory.get(task, 0), share.memory_mib)
        for node, total in _by_node(of_task).items():
            cpus[node] = max(cpus.get(node, 0), total)
    mib = _by_node(memory)
    return {node: Amount(cpus.get(node, 0), mib.get(node, 0)) for node in {**cpus, **mib}}


_Task: TypeAlias = tuple[str, str, int]
"""A task's node, role and number."""


def _by_node(amounts: Mapping[_Task, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (node, _, _), amount in amounts.items():
        found[node] = found.get(node, 0) + amount
    return found


def free_memory_mib(nodes: Nodes, name: str) -> int | None:
    """Return the host memory of a node that nobody has booked; None if its memory is unknown."""
    there = nodes.find(name).memory_mib
    return None if there is None else max(0, there - nodes.booked(name).memory_mib)


class Nodes:
    """The capacity of each node, and the bookings of live jobs."""

    def __init__(self) -> None:
        self._known: dict[str, Node] = {}
        self._placements: dict[int, tuple[Placement, ...]] = {}
        """The placements of each live job that books anything."""
        self._of_job: dict[int, dict[str, Amount]] = {}
        self._booked: dict[str, Amount] = {}

    def see(self, nodes: Iterable[Node]) -> bool:
        """Replace the nodes' capacities. Returns whether they have changed."""
        before, self._known = self._known, {node.name: node for node in nodes}
        return self._known != before

    def update(self, job: Job | None, attempt: Attempt | None) -> None:
        """Book what a live attempt has, and what it is about to get; else book nothing."""
        if attempt is None:
            return
        if attempt.ended is not None:
            self._book(job, attempt.job_id, ())
            return
        # Caps that are not applied yet count already: two proposals cannot both take the last CPUs.
        pending = attempt.asked(ActionKind.SHARES)
        asked = replace(attempt.placement, shares=pending.shares) if pending else None
        found = (attempt.placement, attempt.target, job.target if job else None, asked)
        self._book(job, attempt.job_id, tuple(each for each in found if each is not None))

    def _book(self, job: Job | None, job_id: int, placements: tuple[Placement, ...]) -> None:
        if self._placements.get(job_id, ()) == placements:
            return
        self._placements.pop(job_id, None)
        for name, amount in self._of_job.pop(job_id, {}).items():
            self._booked[name] -= amount
        found = booked_by(job, placements)
        if found:
            self._placements[job_id], self._of_job[job_id] = placements, found
        for name, amount in found.items():
            self._booked[name] = self._booked.get(name, NOTHING) + amount

    def placements_of(self, job_id: int) -> tuple[Placement, ...]:
        """Return the placements for which a job has booked something; empty if it has not."""
        return self._placements.get(job_id, ())

    def booked(self, name: str) -> Amount:
        """Return what all jobs have booked on a node."""
        return self._booked.get(name, NOTHING)

    def booked_for(self, job_ids: Iterable[int]) -> Mapping[str, Amount]:
        """Return what these jobs have booked on each node."""
        found: dict[str, Amount] = {}
        for job_id in job_ids:
            for name, amount in self._of_job.get(job_id, {}).items():
                found[name] = found.get(name, NOTHING) + amount
        return found

    def find(self, name: str) -> Node:
        """Return a node with its capacity, which is unknown for a node that was not reported."""
        return self._known.get(name) or Node(name)

    def known(self) -> list[Node]:
        """Return the reported nodes; before any report, this one with unknown capacity."""
        return list(self._known.values()) or [Node(LOCAL_NODE)]

    def uses(self) -> tuple[NodeUse, ...]:
        """Return the reported nodes with their bookings, by name."""
        found = []
        for name in sorted(self._known):
            booked = self.booked(name)
            use = NodeUse(self._known[name], booked.milli_cpus / 1000, booked.memory_mib)
            found.append(use)
        return tuple(found)
