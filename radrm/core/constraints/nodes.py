"""Why a job cannot have its CPUs and its host memory; and the caps of its shares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from radrm.core.records import USUAL_UNITS, Job, Node, Placement, Refusal, Role, Share
from radrm.core.state.nodes import NOTHING, Amount, booked_by
from radrm.core.state.state import State
from radrm.core.units import milli, show_mib
from radrm.structs import replace

CPUS, MEMORY = "cpus", "memory"
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0
"""The range of `Share.cpu_weight`, which is that of control groups."""


def books_nothing(job: Job) -> bool:
    """Return whether a job takes no CPUs and no host memory of a node."""
    for role in job.spec.roles:
        if role.needs.cpus is not None or role.needs.memory_mib is not None:
            return False
    return job.spec.memory_range_mib is None


def never_on_nodes(state: State, job: Job) -> str | None:
    """Return why the nodes could not run this job even if they were empty; None if they could."""
    if books_nothing(job):
        return None
    short = _shortage(job, state.nodes.known())
    if short is None:
        return None
    rule, needed, there = short
    return f"needs {_show(rule, needed)}, the server has {_show_number(rule, there)}"


def refuse_size(state: State, job: Job, leaving: Collection[int] = ()) -> Refusal | None:
    """Return why the nodes cannot run a waiting job at its smallest size now; None if they can.

    It depends on no device. `leaving`: jobs whose bookings do not count.
    """
    if books_nothing(job):
        return None
    without = state.nodes.booked_for(leaving)
    free = [_free(state, node, without.get(node.name, NOTHING)) for node in state.nodes.known()]
    short = _shortage(job, free)
    return None if short is None else _refusal(*short)


def refuse_bookings(state: State, job: Job, placement: Placement) -> Refusal | None:
    """Return why the nodes of a placement cannot give what it books; None if they can.

    What the job has booked already is its own: a resize or migration may keep it.
    """
    nodes, mine = state.nodes, state.nodes.booked_for([job.id])
    for name, wanted in booked_by(job, (*nodes.placements_of(job.id), placement)).items():
        own = mine.get(name, NOTHING)
        free = _free(state, nodes.find(name), own)
        for rule, needed, there, has in (
            (CPUS, wanted.milli_cpus, _milli(free), own.milli_cpus),
            (MEMORY, wanted.memory_mib, free.memory_mib, own.memory_mib),
        ):
            if there is not None and needed > max(there, has):
                return _refusal(rule, needed, there)
    return None


def refuse_caps(shares: Sequence[Share]) -> Refusal | None:
    """Return which cap of these shares makes no sense; None if each does."""
    of_task: dict[tuple[str, int], tuple[float | None, float | None, int | None]] = {}
    for share in shares:
        if share.sm_fraction is not None and not 0 < share.sm_fraction <= 1:
            return Refusal("shares", "an SM fraction lies in (0, 1]", share.device)
        if share.cpus is not None and share.cpus <= 0:
            return Refusal("shares", "a CPU cap is above zero", share.device)
        if share.cpu_weight is not None and not LEAST_WEIGHT <= share.cpu_weight <= MOST_WEIGHT:
            return Refusal("shares", "a CPU weight lies in 0.01..100", share.device)
        if share.memory_mib is not None and share.memory_mib <= 0:
            return Refusal("shares", "a limit of host memory is above zero", share.device)
        caps = (share.cpus, share.cpu_weight, share.memory_mib)
        if of_task.setdefault((share.role, share.task), caps) != caps:
            why = "all shares of a task have the same CPUs and host memory"
            return Refusal("shares", why, share.device)
    return None


def refuse_amounts(job: Job, role: Role, share: Share) -> Refusal | None:
    """Return that a share books less of its node than a task of its role needs, or more than the
    range of its job allows; else None.
    """
    cpus, mib = milli(share.cpus), share.memory_mib or 0
    least_mib = job.host_memory_mib(role, share.task) or 0
    for rule, needed, there in (
        (CPUS, milli(role.needs.cpus), cpus),
        (MEMORY, least_mib, mib),
    ):
        if there < needed:
            why = f"needs {_show(rule, needed)}, {_show_number(rule, there)} would be booked"
            return _not_booked(rule, why, needed, there)
    most, span = role.needs.cpus_max, job.spec.memory_range_mib
    if span is not None and mib and not least_mib:
        return refuse_booker(job)
    for rule, limit, there in (
        (CPUS, None if most is None else milli(most), cpus),
        (MEMORY, None if span is None else span[1], mib),
    ):
        if limit is not None and there > limit:
            why = f"may have {_show(rule, limit)}, {_show_number(rule, there)} would be booked"
            return _not_booked(rule, why, limit, there)
    return None


def refuse_booker(job: Job) -> Refusal:
    """Return that only one task books the host memory of a job with a range of it."""
    why = f"task 0 of role {job.spec.roles[0].name} books the host memory of the whole job"
    return Refusal("reservation", why)


# ------------------------------------------------------------------ amounts


def _shortage(job: Job, amounts: Sequence[Node]) -> tuple[str, int, int] | None:
    """Return what the job's smallest size lacks on nodes with these amounts; None if nothing.

    All tasks together must fit the nodes together, and each task must fit a node. With several
    nodes that may not suffice; `refuse_bookings` checks a placement.
    """
    tasks = [
        Amount(milli(role.needs.cpus), job.host_memory_mib(role, task) or 0)
        for role in job.spec.roles
        for task in range(job.count(role))
    ]
    kinds: tuple[tuple[str, list[int], list[int | None]], ...] = (
        (CPUS, [t.milli_cpus for t in tasks], [_milli(a) for a in amounts]),
        (MEMORY, [t.memory_mib for t in tasks], [a.memory_mib for a in amounts]),
    )
    measures: tuple[Callable[[list[int]], int], ...] = (sum, max)
    for rule, needed, there in kinds:
        known = [each for each in there if each is not None]
        if not needed or len(known) < len(there):
            continue
        for measure in measures:
            if measure(needed) > measure(known):
                return rule, measure(needed), measure(known)
    return None


def _free(state: State, node: Node, without: Amount) -> Node:
    """Return what is free of a node if `without` were not booked."""
    booked = state.nodes.booked(node.name) - without
    cpus, memory = _milli(node), node.memory_mib
    return replace(
        node,
        cpus=None if cpus is None else max(0, cpus - booked.milli_cpus) / 1000,
        memory_mib=None if memory is None else max(0, memory - booked.memory_mib),
    )


def _milli(node: Node) -> int | None:
    return None if node.cpus is None else milli(node.cpus)


def _refusal(rule: str, needed: int, there: int) -> Refusal:
    why = f"needs {_show(rule, needed)}, {_show_number(rule, there)} free"
    return Refusal(rule, why, None, _number(rule, needed), _number(rule, there))


def _not_booked(rule: str, why: str, needed: int, there: int) -> Refusal:
    numbers = _number(rule, needed), _number(rule, there)
    return Refusal("reservation", why, None, *numbers, unit=USUAL_UNITS[rule])


def _number(rule: str, amount: int) -> float:
    return amount / 1000 if rule == CPUS else amount


def _show(rule: str, amount: int) -> str:
    """Return an amount with what it is of: `8 CPUs`, `64.0G of host memory`."""
    if rule == MEMORY:
        return f"{show_mib(amount)} of host memory"
    return f"{_show_number(rule, amount)} CPU{'s' * (amount != 1000)}"


def _show_number(rule: str, amount: int) -> str:
    return f"{amount / 1000:.10g}" if rule == CPUS else show_mib(amount)
