"""What users ask of running jobs: save, go on elsewhere, or have another size.

Theory of operation
-------------------
Another size: tasks that stay keep their devices and their memory; the last ones of a role go first.
New tasks are placed as a start is: in the order of the policy, where the job has none yet, in its
collocation mode, and on nodes with room.

Another place: a GPU that the user or the policy chooses. The policy is that of the planner that
starts jobs, so a migration puts no job where it could not have started.

Each request becomes a proposal, and the core checks it as it checks a planner's. Growth by hand
also waits its turn: a planner looks at the queue by itself, and a user has no reason to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from radrm.core.constraints.proposal import SAME_SIZE, check
from radrm.core.events import CheckpointRequested, MigrateRequested, ResizeRequested
from radrm.core.planning.placing import find_with_fallback, put_on_nodes
from radrm.core.proposals import Migrate, Proposal, ResizeTo, TakeCheckpointNow
from radrm.core.records import Attempt, Job, Placement, Refusal, Role, Share
from radrm.core.rules import AnyPlanner, Policy
from radrm.core.state.state import State
from radrm.core.view import View
from radrm.core.words import Resizing, Unit
from radrm.structs import replace


def find_size(
    view: View,
    policy: Policy,
    instead: Policy,
    job: Job,
    attempt: Attempt,
    counts: Mapping[str, int],
    only: Collection[str] | None = None,
) -> Placement | Refusal:
    """Return the placement of a running job with these numbers of tasks, or why it is refused.

    `counts`: by role; a role that is not named keeps its tasks. `instead` replaces `policy` while
    that rests after a failure. `only`: use no other devices for new tasks. Each of them has the
    fewest CPUs of its role. The core checks the result when it is proposed (`ResizeTo`).
    """
    return _Sizing(view, policy, instead, job, attempt.placement, only).to(counts)


def with_cpus(placement: Placement, cpus: Mapping[tuple[str, int], float]) -> Placement:
    """Return a placement in which these tasks, by role and number, have so many CPUs."""
    shares = tuple(
        replace(share, cpus=cpus.get((share.role, share.task), share.cpus))
        for share in placement.shares
    )
    return replace(placement, shares=shares)


def _range(role: Role) -> str:
    if role.count_min == role.count_max:
        return f"role {role.name} always has {role.count_min} task{'s' * (role.count_min != 1)}"
    steps = f", in steps of {role.step}" if role.step != 1 else ""
    return f"role {role.name} has {role.count_min} to {role.count_max} tasks{steps}"


class _Sizing(Struct, frozen=True):
    """A change of the number of tasks of a running job, which has the placement `before`."""

    view: View
    policy: Policy
    instead: Policy
    job: Job
    before: Placement
    only: Collection[str] | None

    def to(self, counts: Mapping[str, int]) -> Placement | Refusal:
        """Return the placement with these numbers of tasks by role, or why it is refused."""
        roles, had = self.job.spec.roles, self.before.tasks()
        unknown = sorted(counts.keys() - {role.name for role in roles})
        if unknown:
            names = ", ".join(role.name for role in roles)
            return Refusal("role", f"the job has no role {unknown[0]}; it has {names}")
        gpus = sum(counts.get(r.name, had.get(r.name, 0)) * r.needs.gpus for r in roles)
        beyond = self.view.refuse_gpus(self.job, gpus)
        if beyond is not None:
            return beyond
        shares: list[Share] = []
        for role in roles:
            mine = [share for share in self.before.shares if share.role == role.name]
            present = sorted({share.task for share in mine})
            wanted = counts.get(role.name, len(present))
            if not role.allows(wanted):
                return Refusal("count", _range(role), None, wanted, role.count_max, unit=Unit.TASKS)
            kept = set(present[:wanted])
            shares += [self._kept(role, share) for share in mine if share.task in kept]
            if wanted > len(present):
                last = present[-1] if present else -1
                more = self._more(role, range(last + 1, last + 1 + wanted - len(present)), shares)
                if isinstance(more, Refusal):
                    return more
                shares += more
        return replace(self.before, shares=tuple(shares))

    def _kept(self, role: Role, share: Share) -> Share:
        """Return the share of a task that stays.

        A cap below what the task asked for ends with its attempt, if the job is started again.
        """
        asked, restarts = role.needs.cpus, self.job.spec.resizing is Resizing.RESTART
        if restarts and asked is not None and (share.cpus or 0.0) < asked:
            return replace(share, cpus=asked)
        return share

    def _more(
        self, role: Role, numbers: range, beside: Sequence[Share]
    ) -> Sequence[Share] | Refusal:
        """Return the shares of new tasks with these numbers, or why they have no place.

        `beside`: the job's other shares, as they will be.
        """
        if role.needs.gpus:
            return self._on_gpus(role, numbers)
        return self._on_nodes(role, numbers, beside)

    def _on_nodes(self, role: Role, numbers: range, beside: Sequence[Share]) -> Sequence[Share]:
        """Return the shares of new tasks without a GPU."""
        cpus, mib = role.needs.cpus, _mib(self.job, role)
        new = [Share(None, role=role.name, task=n, cpus=cpus, memory_mib=mib) for n in numbers]
        present = {(share.role, share.task) for share in self.before.shares}
        unbooked = [
            replace(s, cpus=None, memory_mib=None) if (s.role, s.task) in present else s
            for s in beside
        ]
        return put_on_nodes(self.view.nodes(), new, unbooked)

    def _on_gpus(self, role: Role, numbers: range) -> Sequence[Share] | Refusal:
        """Return the shares of new tasks on GPUs, or why they have no place.

        A launcher starts tasks on GPUs beside those that it has, so they stay on its nodes.
        """
        before, only = self.before, self.only
        nodes = {share.node for share in before.shares if share.device is not None}
        others = [
            device.uuid
            for device in self.view.devices()
            if device.uuid not in before.devices and (only is None or device.uuid in only)
            if not nodes or device.node in nodes
        ]
        # The new tasks alone, as a job: what the whole job books for itself is booked already.
        new = replace(role, count_min=len(numbers))
        spec = replace(self.job.spec, roles=(new,), memory_range_mib=None)
        part, mode = replace(self.job, spec=spec, counts=()), before.collocation
        found = find_with_fallback(self.view, self.policy, part, None, self.instead, others, mode)
        if found.placement is None:
            return _main_reason(found.refusals)
        first = numbers[0]
        return [replace(share, task=share.task + first) for share in found.placement.shares]


def _mib(job: Job, role: Role) -> int | None:
    return role.needs.memory_mib if job.spec.memory_range_mib is None else None


def _main_reason(refusals: tuple[Refusal, ...]) -> Refusal:
    """Return the refusal that tells a user most: of a device, else the last one."""
    of_device = [refusal for refusal in refusals if refusal.device is not None]
    found = (of_device or list(refusals))[:1]
    if not found:
        return Refusal("count", "there is no other GPU")
    needed, there = found[0].needed, found[0].available
    if found[0].rule == "count" and needed is not None and there is not None:
        why = f"needs {needed:g} more GPU{'s' * (needed != 1)}, {there:g} can take it now"
        return replace(found[0], message=why)
    return found[0]


READING = "reading"
"""The rule that refuses a device whose present state has not been read."""
NO_POLICY = Refusal("rule", "the planner that starts jobs has no policy to choose a GPU")

Requested: TypeAlias = CheckpointRequested | MigrateRequested | ResizeRequested


class Requests:
    """Answers the requests of users. `planners`: those in use.

    The policy of the planner that starts jobs chooses devices.
    """

    def __init__(self, state: State, view: View, planners: Sequence[AnyPlanner]) -> None:
        self._state, self._view, self._planners = state, view, planners

    def answer(self, event: Requested) -> Proposal | Refusal:
        """Return the proposal that does what a user asks for, or why that is impossible now."""
        state = self._state
        job, attempt = state.jobs.get(event.job_id), state.attempts.get(event.job_id)
        if isinstance(event, ResizeRequested) and job is not None and attempt is not None:
            return self._resize(job, attempt, dict(event.counts))
        save = TakeCheckpointNow(job_id=event.job_id)
        refusal = check(state, save)
        if job is None or attempt is None or not isinstance(event, MigrateRequested):
            return refusal or save
        if refusal is not None:
            return refusal
        found = self._move(job, attempt.devices, event.device)
        return (check(state, found) or found) if isinstance(found, Proposal) else found

    def _move(self, job: Job, here: Sequence[str], to: str | None) -> Migrate | Refusal:
        """Return a migration of a running job off the devices `here`, or why it is refused.

        `to`: the UUID of the only device to use; None: any other.
        """
        if not job.spec.gpus:
            return Refusal("count", "it uses no GPU")
        if to is not None and to in here:
            return Refusal("device", "it is on that GPU", to)
        if to is not None and job.spec.gpus > 1:
            why = f"it uses {job.spec.gpus} GPUs; name none, and the policy chooses"
            return Refusal("count", why)
        policies = self._policies_for(job)
        if policies is None:
            return NO_POLICY
        view, (policy, instead) = self._view, policies
        others = [d.uuid for d in view.devices() if d.uuid not in here] if to is None else [to]
        found = find_with_fallback(view, policy, job, None, instead, others)
        if found.placement is not None:
            return Migrate(job_id=job.id, placement=found.placement)
        of_devices = [r for r in found.refusals if r.device is not None] or found.refusals
        # One that ends with the next reading comes first: the user only has to try again.
        first = sorted(of_devices, key=lambda r: r.rule != READING)
        return next(iter(first), Refusal("count", "there is no other GPU"))

    def _policies_for(self, job: Job) -> tuple[Policy, Policy] | None:
        """Return the policy for a job of the first planner that has one, and what replaces it."""
        for planner in self._planners:
            policy = getattr(planner, "policy", None)
            recovery = getattr(planner, "recovery_policy", None)
            if planner.starts_jobs and policy is not None and recovery is not None:
                return (recovery if job.recovers_idle else policy), recovery
        return None

    def _resize(self, job: Job, attempt: Attempt, counts: dict[str, int]) -> Proposal | Refusal:
        """Return a resize to these numbers of tasks, by role."""
        # First what no size can change: a job that does not run, or is resized already.
        stands = check(self._state, ResizeTo(job_id=job.id, placement=attempt.placement))
        if stands is not None and stands is not SAME_SIZE:
            return stands
        policies = self._policies_for(job)
        if policies is None:
            return NO_POLICY
        found = find_size(self._view, *policies, job, attempt, counts)
        if isinstance(found, Refusal):
            return found
        proposal = ResizeTo(job_id=job.id, placement=found)
        return check(self._state, proposal) or self._out_of_turn(attempt, found) or proposal

    def _out_of_turn(self, attempt: Attempt, target: Placement) -> Refusal | None:
        """Refuse more tasks while a job waits: they would take what it waits for."""
        before = attempt.placement.tasks()
        if all(count <= before.get(role, 0) for role, count in target.tasks().items()):
            return None
        head = self._view.head() or self._view.head(gpuless=True)
        if head is None:
            return None
        whom = f"job {head.label} ({head.spec.name})"
        why = f"{whom} waits, and no job grows meanwhile; try again when it has started"
        return Refusal("order", why)
