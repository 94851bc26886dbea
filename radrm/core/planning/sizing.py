"""Another size for a running job: fewer tasks, or more on GPUs that a policy chooses.

Tasks that stay keep their GPUs and their memory. The last ones of a role go first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from radrm.core.planning.assembly import Found
from radrm.core.planning.fallback import find_with_fallback
from radrm.core.records import Attempt, Job, Placement, Refusal, Role, Share
from radrm.core.rules import Policy
from radrm.core.view import View


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
    that rests after a failure. New tasks get other devices than the job has (`only`: of these), in
    its collocation mode. The core checks the result when it is proposed (`ResizeTo`).
    """
    before = attempt.placement
    shares: list[Share] = []
    for role in job.spec.roles:
        mine = [share for share in before.shares if share.role == role.name]
        wanted = counts.get(role.name, len({share.task for share in mine}))
        if not role.allows(wanted):
            span = f"{role.count_min}..{role.count_max}"
            return Refusal("count", f"role {role.name} runs with {span} tasks", None, wanted)
        shares += [share for share in mine if share.task < wanted]
        present = len({share.task for share in mine})
        if wanted > present:
            more = _more(view, policy, instead, job, role, before, wanted - present, only)
            if isinstance(more, Refusal):
                return more
            shares += [replace(share, task=share.task + present) for share in more]
    return replace(before, shares=tuple(shares))


def with_cpus(placement: Placement, cpus: Mapping[tuple[str, int], float]) -> Placement:
    """Return a placement in which these tasks, by role and number, have so many CPUs."""
    shares = tuple(
        replace(share, cpus=cpus.get((share.role, share.task), share.cpus))
        for share in placement.shares
    )
    return replace(placement, shares=shares)


def _more(
    view: View,
    policy: Policy,
    instead: Policy,
    job: Job,
    role: Role,
    before: Placement,
    count: int,
    only: Collection[str] | None,
) -> list[Share] | Refusal:
    """Return the shares of `count` new tasks of a role, counted from 0; or why there are none."""
    if not role.needs.gpus:
        node = before.shares[0].node
        return [
            Share(None, node=node, role=role.name, task=number, cpus=role.needs.cpus)
            for number in range(count)
        ]
    others = [
        device.uuid
        for device in view.devices()
        if device.uuid not in before.devices and (only is None or device.uuid in only)
    ]
    part = replace(job, spec=replace(job.spec, roles=(replace(role, count_min=count),)))
    found: Found = find_with_fallback(view, policy, part, None, instead, others)
    if found.placement is None:
        lasting = [r for r in found.refusals if r.device is not None] or list(found.refusals)
        return lasting[0] if lasting else Refusal("count", "there is no other GPU")
    if found.placement.collocation is not before.collocation:
        mode = found.placement.collocation.value
        return Refusal("mode", f"the job would share the new GPU by {mode}")
    return [replace(share, memory_mib=None) for share in found.placement.shares]
