"""Another size for a running job: fewer tasks, or more on devices that a policy chooses.

Tasks that stay keep their devices and their memory; the last ones of a role go first. New tasks are
placed as a start is: in the order of the policy, where the job has none yet, in its collocation
mode, and on nodes with room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from radrm.core.planning.fallback import find_with_fallback
from radrm.core.planning.hosts import put_on_nodes
from radrm.core.records import Attempt, Job, Placement, Refusal, Role, Share
from radrm.core.rules import Policy
from radrm.core.view import View
from radrm.core.words import Resizing, Unit


def find_size(
    view: View,
    policy: Policy,
    instead: Policy,
    job: Job,
    attempt: Attempt,
    counts: Mapping[str, int],
    only: Collection[str] | None = None,
) -> Placement | Refusal:
    """Return the placement of a running job with these numbers of tasks, or why there is none.

    `counts`: by role; a role that is not named keeps its tasks. `instead` replaces `policy` while
    that rests after a failure. `only`: use no other devices for new tasks. Each of them has the
    fewest CPUs of its role. The core checks the result when it is proposed (`ResizeTo`).
    """
    before, roles = attempt.placement, job.spec.roles
    unknown = sorted(counts.keys() - {role.name for role in roles})
    if unknown:
        names = ", ".join(role.name for role in roles)
        return Refusal("role", f"the job has no role {unknown[0]}; it has {names}")
    had = before.tasks()
    gpus = sum(counts.get(r.name, had.get(r.name, 0)) * r.needs.gpus for r in roles)
    beyond = view.refuse_gpus(job, gpus)
    if beyond is not None:
        return beyond
    shares: list[Share] = []
    for role in roles:
        mine = [share for share in before.shares if share.role == role.name]
        present = sorted({share.task for share in mine})
        wanted = counts.get(role.name, len(present))
        if not role.allows(wanted):
            return Refusal("count", _range(role), None, wanted, role.count_max, unit=Unit.TASKS)
        kept = set(present[:wanted])
        shares += [_kept(job, role, share) for share in mine if share.task in kept]
        if wanted > len(present):
            last = present[-1] if present else -1
            numbers = range(last + 1, last + 1 + wanted - len(present))
            more = _more(view, policy, instead, job, role, before, shares, numbers, only)
            if isinstance(more, Refusal):
                return more
            shares += more
    return replace(before, shares=tuple(shares))


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


def _kept(job: Job, role: Role, share: Share) -> Share:
    """Return the share of a task that stays.

    A cap below what the task asked for ends with its attempt, if the job is started again.
    """
    asked = role.needs.cpus
    if job.spec.resizing is Resizing.RESTART and asked is not None and (share.cpus or 0.0) < asked:
        return replace(share, cpus=asked)
    return share


def _more(
    view: View,
    policy: Policy,
    instead: Policy,
    job: Job,
    role: Role,
    before: Placement,
    beside: list[Share],
    numbers: range,
    only: Collection[str] | None,
) -> list[Share] | Refusal:
    """Return the shares of new tasks with these numbers, or why they have no place.

    `beside`: the job's other shares, as they will be.
    """
    if not role.needs.gpus:
        new = [
            Share(None, role=role.name, task=task, cpus=role.needs.cpus, memory_mib=_mib(job, role))
            for task in numbers
        ]
        present = {(share.role, share.task) for share in before.shares}
        unbooked = [
            replace(s, cpus=None, memory_mib=None) if (s.role, s.task) in present else s
            for s in beside
        ]
        return put_on_nodes(view, new, unbooked)
    # Its launcher starts tasks on GPUs beside those that it has.
    nodes = {share.node for share in before.shares if share.device is not None}
    others = [
        device.uuid
        for device in view.devices()
        if device.uuid not in before.devices and (only is None or device.uuid in only)
        if not nodes or device.node in nodes
    ]
    # The new tasks alone, as a job: what the whole job books for itself is booked already.
    spec = replace(job.spec, roles=(replace(role, count_min=len(numbers)),), memory_range_mib=None)
    part, mode = replace(job, spec=spec, counts=()), before.collocation
    found = find_with_fallback(view, policy, part, None, instead, others, mode)
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
