"""What users ask of running jobs: save, go on elsewhere, or have another size.

Each request becomes a proposal, and the core checks it as it checks a planner's. Growth by hand
also waits its turn: a planner looks at the queue by itself, and a user has no reason to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from radrm.core.constraints.proposal import SAME_SIZE, check
from radrm.core.events import CheckpointRequested, MigrateRequested, ResizeRequested
from radrm.core.planning.moving import NO_POLICY, find_move, policies_for
from radrm.core.planning.sizing import find_size
from radrm.core.proposals import Proposal, ResizeTo, TakeCheckpointNow
from radrm.core.records import Attempt, Job, Placement, Refusal
from radrm.core.rules import AnyPlanner
from radrm.core.state.state import State
from radrm.core.view import View

Requested: TypeAlias = CheckpointRequested | MigrateRequested | ResizeRequested


def answer(
    state: State, view: View, planners: Sequence[AnyPlanner], event: Requested
) -> Proposal | Refusal:
    """Return the proposal that does what a user asks for, or why that is impossible now.

    `planners`: those in use. The policy of the one that starts jobs chooses devices.
    """
    job, attempt = state.jobs.get(event.job_id), state.attempts.get(event.job_id)
    if isinstance(event, ResizeRequested) and job is not None and attempt is not None:
        return _resize(state, view, planners, job, attempt, dict(event.counts))
    save = TakeCheckpointNow(job_id=event.job_id)
    refusal = check(state, save)
    if job is None or attempt is None or not isinstance(event, MigrateRequested):
        return refusal or save
    if refusal is not None:
        return refusal
    found = find_move(view, planners, job, attempt.devices, event.device)
    return (check(state, found) or found) if isinstance(found, Proposal) else found


def _resize(
    state: State,
    view: View,
    planners: Sequence[AnyPlanner],
    job: Job,
    attempt: Attempt,
    counts: dict[str, int],
) -> Proposal | Refusal:
    """Return a resize to these numbers of tasks, by role."""
    # First what no size can change: a job that does not run, or is resized already.
    stands = check(state, ResizeTo(job_id=job.id, placement=attempt.placement))
    if stands is not None and stands is not SAME_SIZE:
        return stands
    policies = policies_for(planners, job)
    if policies is None:
        return NO_POLICY
    found = find_size(view, *policies, job, attempt, counts)
    if isinstance(found, Refusal):
        return found
    proposal = ResizeTo(job_id=job.id, placement=found)
    return check(state, proposal) or _out_of_turn(view, attempt, found) or proposal


def _out_of_turn(view: View, attempt: Attempt, target: Placement) -> Refusal | None:
    """Refuse more tasks while a job waits: they would take what it waits for, before its turn."""
    before = attempt.placement.tasks()
    if all(count <= before.get(role, 0) for role, count in target.tasks().items()):
        return None
    head = view.head() or view.head(gpuless=True)
    if head is None:
        return None
    whom = f"job {head.label} ({head.spec.name})"
    return Refusal(
        "order", f"{whom} waits, and no job grows meanwhile; try again when it has started"
    )
