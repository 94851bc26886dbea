"""From a layout to a placement of a running job, within the CPUs that are free.

Tasks that stay keep their nodes. So a job can lack CPUs on one node while others have some: then
the tasks there grow by what is free, in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from radrm.core.planning.sizing import find_size, with_cpus
from radrm.core.records import Attempt, Job, Placement, Refusal, Role
from radrm.core.rules import Policy
from radrm.core.view import View
from radrm.core.words import Resizing
from radrm.planners.servers.layout import SERVER, WORKER, Layout, Limits, rounded

CPUS = "cpus"
"""The rule of a refusal for lack of CPUs."""


@dataclass(frozen=True, slots=True)
class Span:
    """What the servers and the workers of one job may be."""

    servers: Limits
    workers: Limits

    @property
    def most_cpus(self) -> float:
        """The most CPUs of all tasks together."""
        return self.servers.total_cpus + self.workers.total_cpus


@dataclass(frozen=True, slots=True)
class Wish:
    """What a job should have.

    By role and number: `weights` has the CPU weights of tasks, `nodes` the nodes to which tasks
    move. The others have no weight of their own, and stay.
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


def cpus_by_task(layout: Layout) -> dict[tuple[str, int], float]:
    """Return the CPUs of each task, by role and number."""
    of_role = ((SERVER, layout.servers), (WORKER, layout.workers))
    return {(role, number): each for role, cpus in of_role for number, each in enumerate(cpus)}


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
        found = find_size(view, policy, instead, wishing, attempt, counts)
    if isinstance(found, Refusal):
        return found
    found = with_cpus(found, cpus_by_task(layout))
    shares = tuple(
        replace(
            share,
            node=wish.nodes.get((share.role, share.task), share.node),
            cpu_weight=wish.weights.get((share.role, share.task)),
        )
        for share in found.shares
    )
    found = _within_nodes(view, job, attempt.placement, replace(found, shares=shares))
    return view.refuse_on_nodes(job, found) or found


def _within_nodes(view: View, job: Job, before: Placement, wanted: Placement) -> Placement:
    """Return a placement in which no node has more tasks' CPUs than it can give this job."""
    least = {role.name: role.needs.cpus or 0.0 for role in job.spec.roles}
    has = {(s.role, s.task): s.cpus or 0.0 for s in before.shares}
    cpus: dict[tuple[str, int], float] = {}
    for use in view.nodes():
        if use.cpus_free is None:
            continue
        here = {(s.role, s.task): s.cpus or 0.0 for s in wanted.shares if s.node == use.node.name}
        mine = sum(
            max(s.cpus or 0.0, least[s.role]) for s in before.shares if s.node == use.node.name
        )
        most = mine + use.cpus_free
        if sum(here.values()) <= most:
            continue
        # A new task has at least what its role needs; one that stays does not lose by this.
        low = {task: min(each, has.get(task, least[task[0]])) for task, each in here.items()}
        more = sum(here.values()) - sum(low.values())
        part = max(0.0, most - sum(low.values())) / more if more > 0 else 0.0
        for task, each in here.items():
            cpus[task] = int(1000 * (low[task] + part * (each - low[task]))) / 1000
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
