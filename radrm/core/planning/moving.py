"""Where a user's running job is to continue: on a GPU that the user or the policy chooses.

The policy is that of the planner that starts jobs, so a migration puts no job where it could not
have started.
"""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.planning.fallback import find_with_fallback
from radrm.core.proposals import Migrate
from radrm.core.records import Job, Refusal
from radrm.core.rules import AnyPlanner, Policy
from radrm.core.view import View


def find_move(
    view: View, planners: Sequence[AnyPlanner], job: Job, here: Sequence[str], to: str | None
) -> Migrate | Refusal:
    """Return a migration of a running job away from the devices `here`, or why there is none.

    `to`: the UUID of the only device to use; None: any other.
    """
    if not job.spec.gpus:
        return Refusal("count", "it uses no GPU")
    if to is not None and to in here:
        return Refusal("device", "it is on that GPU", to)
    if to is not None and job.spec.gpus > 1:
        return Refusal("count", f"it uses {job.spec.gpus} GPUs; name none, and the policy chooses")
    policies = policies_for(planners, job)
    if policies is None:
        return NO_POLICY
    others = [d.uuid for d in view.devices() if d.uuid not in here] if to is None else [to]
    found = find_with_fallback(view, policies[0], job, None, policies[1], others)
    if found.placement is not None:
        return Migrate(job_id=job.id, placement=found.placement)
    of_devices = [r for r in found.refusals if r.device is not None] or found.refusals
    # One that ends with the next reading comes first: the user only has to try again.
    first = sorted(of_devices, key=lambda r: r.rule != READING)
    return next(iter(first), Refusal("count", "there is no other GPU"))


READING = "reading"
"""The rule that refuses a device whose present state has not been read."""
NO_POLICY = Refusal("rule", "the planner that starts jobs has no policy to choose a GPU")


def policies_for(planners: Sequence[AnyPlanner], job: Job) -> tuple[Policy, Policy] | None:
    """Return the policy for a job of the first planner that has one, and what replaces it."""
    for planner in planners:
        policy = getattr(planner, "policy", None)
        recovery = getattr(planner, "recovery_policy", None)
        if planner.starts_jobs and policy is not None and recovery is not None:
            return (recovery if job.recovers_idle else policy), recovery
    return None
