"""The tasks of a job with parameter servers, and the CPUs of each. Pure arithmetic.

A *server* here is a parameter server, a task of the role `ps`; a *worker* one of the role `worker`.
CPUs are rounded to thousandths, as the core books them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, inf

from msgspec import Struct, field

from radrm.rules import (
    Attempt,
    Job,
    Placement,
    Policy,
    Refusal,
    Resizing,
    Role,
    View,
    find_size,
    replace,
    with_cpus,
)

SERVER, WORKER = "ps", "worker"


class Limits(Struct, frozen=True):
    """What the tasks of one role may be: how many, and with how many CPUs each."""

    least: int = 1
    most: int = 1_000_000
    step: int = 1
    least_cpus: float = 0.001
    most_cpus: float = inf

    @classmethod
    def of(cls, role: Role, shown: int = 0) -> Limits:
        """Return what a job file allows; `shown`: the least number that a death has shown."""
        least = role.needs.cpus or 0.001
        most = max(least, role.needs.cpus_max or least)
        return cls(max(role.count_min, shown), role.count_max, role.step, least, most)

    def count(self, wanted: float) -> int:
        """Return the largest allowed number of tasks that is at most `wanted`; else the least."""
        beyond = (min(wanted, self.most) - self.least) / self.step
        return self.least + self.step * max(0, floor(beyond + 1e-9))

    def next(self, count: int) -> int | None:
        """Return the next larger number of tasks; None if there is none."""
        return count + self.step if count + self.step <= self.most else None

    def cpus(self, wanted: float) -> float:
        """Return the allowed CPUs of a task that are nearest to `wanted`."""
        return round(min(max(wanted, self.least_cpus), self.most_cpus), 3)

    @property
    def total_cpus(self) -> float:
        """The most CPUs of all tasks together."""
        return self.most * self.most_cpus


class Layout(Struct, frozen=True):
    """The CPUs of each server and of each worker, by number."""

    servers: tuple[float, ...]
    workers: tuple[float, ...]

    @property
    def total(self) -> float:
        """The CPUs of all tasks together."""
        return sum(self.servers) + sum(self.workers)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of servers and of workers."""
        return len(self.servers), len(self.workers)

    def with_servers(self, cpus: Sequence[float]) -> Layout:
        """Return the layout with other servers."""
        return replace(self, servers=rounded(cpus))

    def with_workers(self, cpus: Sequence[float]) -> Layout:
        """Return the layout with other workers."""
        return replace(self, workers=rounded(cpus))

    def differs(self, other: Layout, part: float) -> bool:
        """Return whether a task has other CPUs by more than `part` of them, or the numbers differ.

        `part`: 0 for any difference.
        """
        if self.counts != other.counts:
            return True
        pairs = zip((*self.servers, *self.workers), (*other.servers, *other.workers), strict=True)
        return any(abs(now - was) > part * was + 1e-6 for now, was in pairs)


def numbers_of(placement: Placement, role: str) -> list[int]:
    """Return the numbers of a role's tasks, ascending. After a resize there can be gaps.

    A layout has the tasks in this order.
    """
    return sorted({share.task for share in placement.shares if share.role == role})


def rounded(cpus: Sequence[float]) -> tuple[float, ...]:
    """Return amounts of CPUs in thousandths."""
    return tuple(round(each, 3) for each in cpus)


def shared_out(total: float, parts: Sequence[float], limits: Limits) -> tuple[float, ...]:
    """Share out CPUs among tasks in proportion to `parts` (>= 0), within what each may have.

    What a task cannot take goes to the others. The sum is `total`, but for what the limits force.
    """
    parts = [max(0.0, part) for part in parts]
    if not any(parts):
        parts = [1.0] * len(parts)
    given: list[float | None] = [None] * len(parts)
    while True:
        open_ = [at for at, each in enumerate(given) if each is None]
        left = total - sum(each for each in given if each is not None)
        weight = sum(parts[at] for at in open_)
        found = {at: left * (parts[at] / weight if weight else 1 / len(open_)) for at in open_}
        low = [at for at in open_ if found[at] < limits.least_cpus]
        high = [at for at in open_ if found[at] > limits.most_cpus]
        if not low and not high:
            for at in open_:
                given[at] = found[at]
            return rounded([each for each in given if each is not None])
        # The side that is further beyond its limit is settled first: the other may be then inside.
        under = sum(limits.least_cpus - found[at] for at in low)
        over = sum(found[at] - limits.most_cpus for at in high)
        for at in low if under >= over else high:
            given[at] = limits.least_cpus if under >= over else limits.most_cpus
        if all(each is not None for each in given):
            return rounded([each for each in given if each is not None])


# ------------------------------------------------------------------
# From a layout to a placement of a running job, within the CPUs that are free.
#
# A new task goes to the node with the most free CPUs. It stays there while there is room; else it
# goes to another node, and is started anew there. If it fits nowhere, the tasks of its node grow by
# what is free, in proportion.


CPUS = "cpus"
"""The rule of a refusal for lack of CPUs."""
_ROUNDING = 0.0005


class Span(Struct, frozen=True):
    """What the servers and the workers of one job may be."""

    servers: Limits
    workers: Limits

    @property
    def most_cpus(self) -> float:
        """The most CPUs of all tasks together."""
        return self.servers.total_cpus + self.workers.total_cpus


class Wish(Struct, frozen=True):
    """What a job should have.

    By role and place in the layout: `weights` has the CPU weights of tasks, `nodes` the nodes to
    which tasks move. The others have no weight of their own, and stay.
    """

    layout: Layout
    weights: Mapping[tuple[str, int], float] = field(default_factory=dict)
    nodes: Mapping[tuple[str, int], str] = field(default_factory=dict)


def span_of(job: Job) -> Span | None:
    """Return what a job with servers and workers may be; None for any other job.

    It has the roles `ps` and `worker`, no GPU, CPUs in both roles, a range in one, and `radrun`
    changes its tasks.
    """
    spec = job.spec
    roles = {role.name: role for role in spec.roles}
    if len(spec.roles) != 2 or roles.keys() != {SERVER, WORKER}:
        return None
    if spec.resizing is not Resizing.LIVE or spec.gpus_max or not spec.elastic:
        return None
    if any(role.needs.cpus is None for role in spec.roles):
        return None
    shown = dict(job.counts)
    return Span(*(Limits.of(roles[name], shown.get(name, 0)) for name in (SERVER, WORKER)))


def layout_of(placement: Placement) -> Layout:
    """Return the CPUs of the tasks of a placement."""
    cpus = {(share.role, share.task): share.cpus or 0.0 for share in placement.shares}
    return Layout(
        *(
            rounded([each for (name, _), each in sorted(cpus.items()) if name == role])
            for role in (SERVER, WORKER)
        )
    )


def laid_out(placement: Placement, wish: Wish) -> Placement:
    """Return a placement with as many tasks as a wish has, with the CPUs that are wished."""
    places = {
        (role, number): (role, at)
        for role in (SERVER, WORKER)
        for at, number in enumerate(numbers_of(placement, role))
    }
    cpus = {SERVER: wish.layout.servers, WORKER: wish.layout.workers}
    shares = []
    for share in placement.shares:
        role, at = place = places[share.role, share.task]
        node, weight = wish.nodes.get(place, share.node), wish.weights.get(place)
        shares.append(replace(share, cpus=cpus[role][at], node=node, cpu_weight=weight))
    return replace(placement, shares=tuple(shares))


def sized(job: Job, layout: Layout) -> Job:
    """Return the job as if it asked for a layout: as many tasks, each with the most of its role."""

    def fixed(role: Role) -> Role:
        cpus = layout.servers if role.name == SERVER else layout.workers
        needs = replace(role.needs, cpus=max(cpus), cpus_max=None)
        return replace(role, count_min=len(cpus), count_max=len(cpus), needs=needs)

    spec = replace(job.spec, roles=tuple(fixed(role) for role in job.spec.roles))
    return replace(job, spec=spec, counts=())


def placed(
    view: View,
    policy: Policy,
    instead: Policy,
    job: Job,
    attempt: Attempt,
    wish: Wish,
) -> Placement | Refusal:
    """Return the placement of a running job that is wished, or as much of it as its nodes have."""
    layout = wish.layout
    counts = {SERVER: len(layout.servers), WORKER: len(layout.workers)}
    found: Placement | Refusal = attempt.placement
    if counts != attempt.placement.tasks():
        # So new tasks get nodes with room for the CPUs that they are to have.
        wanted = sized(job, layout)
        roles = tuple(
            replace(role, needs=want.needs)
            for role, want in zip(job.spec.roles, wanted.spec.roles, strict=True)
        )
        wishing = replace(job, spec=replace(job.spec, roles=roles))
        found = find_size(view, wishing, attempt, counts, policy, instead)
    if isinstance(found, Refusal):
        return found
    room, before = rooms(view, job, attempt.placement), attempt.placement
    found = _within(room, job, before, spread(room, laid_out(found, wish), before))
    return view.refuse_on_nodes(job, found) or found


def rooms(view: View, job: Job, before: Placement | None = None) -> dict[str, float]:
    """Return the CPUs that each node has for all tasks of a job, which now has `before`.

    A node of unknown size is left out.
    """
    least = {role.name: role.needs.cpus or 0.0 for role in job.spec.roles}
    found = {use.node.name: use.cpus_free for use in view.nodes() if use.cpus_free is not None}
    for share in before.shares if before is not None else ():
        if share.node in found:
            found[share.node] += max(share.cpus or 0.0, least[share.role])
    return found


def spread(
    room: Mapping[str, float], wanted: Placement, before: Placement | None = None
) -> Placement:
    """Return a placement on nodes with room: a new task goes to the one with the most free CPUs.

    A task of `before` stays where it is, if there is room. As the papers' clusters do, for the
    network of a node is shared by its tasks.
    """
    left, nodes = dict(room), nodes_of(wanted)
    present = set(nodes_of(before)) if before is not None else set()
    cpus = {(share.role, share.task): share.cpus or 0.0 for share in wanted.shares}
    homeless: list[tuple[str, int]] = []
    for task, node in sorted(nodes.items()):
        if task not in present or cpus[task] > left.get(node, inf) + _ROUNDING:
            homeless.append(task)
        elif node in left:
            left[node] -= cpus[task]
    for task in sorted(homeless, key=lambda each: (-cpus[each], each)) if left else ():
        most = max(left, key=lambda name: (left[name], name == nodes[task]))
        if task not in present or left[most] >= cpus[task]:
            nodes[task] = most
        if nodes[task] in left:
            left[nodes[task]] -= cpus[task]
    shares = tuple(replace(s, node=nodes[s.role, s.task]) for s in wanted.shares)
    return replace(wanted, shares=shares)


def _within(room: Mapping[str, float], job: Job, before: Placement, wanted: Placement) -> Placement:
    """Return a placement in which no node has more CPUs of tasks than it can give this job."""
    least = {role.name: role.needs.cpus or 0.0 for role in job.spec.roles}
    has = {(s.role, s.task): s.cpus or 0.0 for s in before.shares}
    cpus: dict[tuple[str, int], float] = {}
    for node, most in room.items():
        here = {(s.role, s.task): s.cpus or 0.0 for s in wanted.shares if s.node == node}
        if sum(here.values()) <= most + _ROUNDING:
            continue
        # A new task has at least what its role needs; one that stays does not lose by this.
        low = {task: min(each, has.get(task, least[task[0]])) for task, each in here.items()}
        more = sum(here.values()) - sum(low.values())
        part = max(0.0, most - sum(low.values())) / more if more > 0 else 0.0
        for task, each in here.items():
            cpus[task] = floor(1000 * (low[task] + part * (each - low[task]))) / 1000
    return with_cpus(wanted, cpus)


def free_cpus(view: View) -> float:
    """Return the CPUs that nobody has booked, on all nodes together; infinite if unknown."""
    free = [use.cpus_free for use in view.nodes()]
    known = [each for each in free if each is not None]
    return sum(known) if known and len(known) == len(free) else inf


def lacking_cpus(view: View) -> float:
    """Return the CPUs that the first waiting job lacks; 0 if none waits for CPUs."""
    lacks = 0.0
    for gpuless in (False, True):
        head = view.head(gpuless)
        refusal = None if head is None else view.refuse_on_nodes(head)
        if refusal is not None and refusal.rule == CPUS:
            lacks = max(lacks, (refusal.needed or 0.0) - (refusal.available or 0.0))
    return lacks


def nodes_of(placement: Placement) -> dict[tuple[str, int], str]:
    """Return the node of each task, by role and number."""
    return {(share.role, share.task): share.node for share in placement.shares}
