"""Carry out or reject a proposal; delay the next one after a failure.

Every proposal is checked against the present state. If a proposal's action fails, the next one
of this kind for this job waits, longer after each failure. So does one that is carried out too
often within a second. A *rejected* proposal does not wait: it costs one check and no action,
and its reason may be gone a moment later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any

from radrm.core.actions import DueAction
from radrm.core.constraints.proposal import changes_cpus, changes_memory, check
from radrm.core.events import (
    AttemptEvent,
    CapsRaised,
    CapsRefused,
    CheckpointTaken,
    Resized,
    SharesApplied,
)
from radrm.core.lifecycle.ending import give_up
from radrm.core.lifecycle.launching import moment, start
from radrm.core.lifecycle.memory import GROWTH, RAISE
from radrm.core.lifecycle.occupancy import drop_target, take_target
from radrm.core.lifecycle.others import settle
from radrm.core.lifecycle.outcomes import has_saved, is_newer
from radrm.core.lifecycle.pending import action_of, ask, is_about, without
from radrm.core.lifecycle.resizing import begin_resize, end_resize, withdraw
from radrm.core.lifecycle.stops import stop
from radrm.core.lifecycle.timing import warn
from radrm.core.planning.planners import REQUESTS
from radrm.core.planning.reserving import put_planned
from radrm.core.proposals import (
    Cancel,
    Migrate,
    Preempt,
    Proposal,
    Reserve,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
    Warn,
)
from radrm.core.records import Attempt, Job, Pending, PlannerRequest, Refusal
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, Timer
from radrm.core.units import show_seconds
from radrm.core.words import ActionKind, CheckpointKind, JobState, Resizing, StopReason


def apply(state: State, proposal: Proposal) -> None:
    """Carry out a proposal, or note its rejection."""
    refusal = _refuse(state, proposal)
    if refusal is not None:
        state.step.rejections.append((proposal, refusal))
        return
    if isinstance(proposal, Reserve):
        put_planned(state, proposal)
        return
    _CARRIERS[type(proposal)](state, state.jobs[proposal.job_id], proposal)
    # The next proposal is checked against a state in which all ends have reached followers.
    settle(state)


def _refuse(state: State, proposal: Proposal) -> Refusal | None:
    """Return why a proposal is rejected now; None if it can be carried out."""
    job_id, kind, now_s = proposal.job_id, type(proposal), state.step.now.boot_s
    waits = state.proposals.pausing(job_id, kind.__name__, now_s)
    if waits is not None:
        left = show_seconds(ceil(waits.until_s - now_s))
        return Refusal("pause", f"it waits {left} because it failed: {waits.why}")
    refusal = check(state, proposal)
    if kind is Reserve:
        return refusal  # it causes no action and no event, so it cannot repeat itself
    if refusal is None and state.proposals.too_many(job_id, kind.__name__, now_s):
        refusal = Refusal("pace", "it was carried out again and again within a second")
        _delay_next(state, job_id, kind, refusal.message)
    return refusal


def _delay_next(state: State, job_id: int, kind: type[Proposal], why: str) -> None:
    """Delay the next proposal of this kind for this job, longer each time."""
    now_s = state.step.now.boot_s
    failed = state.proposals.fail(job_id, kind.__name__, now_s, why)
    state.wake(Timer(failed.until_s, ALL_PLANNERS))


# ------------------------------------------------------------------ one function per kind


def _start(state: State, job: Job, proposal: Start) -> None:
    start(state, job, proposal.placement)


def _preempt(state: State, job: Job, proposal: Preempt) -> None:
    attempt = state.put_attempt(replace(state.attempts[job.id], goes_behind=proposal.behind))
    if job.spec.checkpoint.kind is CheckpointKind.NONE:
        stop(state, job, attempt, StopReason.PREEMPTED)
    else:
        ask(state, job, attempt, ActionKind.CHECKPOINT, stops=True)


def _cancel(state: State, job: Job, proposal: Cancel) -> None:
    stop(state, job, state.attempts[job.id], StopReason.CANCELLED, proposal.reason)


def _warn(state: State, job: Job, proposal: Warn) -> None:
    its = proposal.kind, proposal.text, proposal.does, proposal.in_s
    warn(state, state.attempts[job.id], *its)


def _checkpoint(state: State, job: Job, proposal: Proposal) -> None:
    attempt = replace(state.attempts[job.id], goes_behind=False)
    ask(state, job, attempt, ActionKind.CHECKPOINT)


def _migrate(state: State, job: Job, proposal: Migrate) -> None:
    # The job saves its state first; then `checkpoint_taken` stops it.
    take_target(state, job, proposal.placement)
    _checkpoint(state, job, proposal)


def _resize(state: State, job: Job, proposal: ResizeTo) -> None:
    if job.spec.resizing is Resizing.RESTART:
        state.put_attempt(replace(state.attempts[job.id], resize_failed=None))
        take_target(state, job, proposal.placement)
        _checkpoint(state, job, proposal)
    else:
        begin_resize(state, job, state.attempts[job.id], proposal.placement)


def _set_shares(state: State, job: Job, proposal: SetShares) -> None:
    ask(state, job, state.attempts[job.id], ActionKind.SHARES, proposal.shares)


_CARRIERS: dict[type[Proposal], Callable[[State, Job, Any], None]] = {
    Start: _start,
    Preempt: _preempt,
    Cancel: _cancel,
    Warn: _warn,
    TakeCheckpointNow: _checkpoint,
    Migrate: _migrate,
    ResizeTo: _resize,
    SetShares: _set_shares,
}


# ------------------------------------------------------------------ for users


def request(state: State, proposal: Proposal, by: str) -> None:
    """Carry out what a user asks for about a running job, if that is possible now.

    Unlike a planner's, it does not wait after a failure: the user sees that. What a reservation
    asks for in vain is in the log.
    """
    refusal = check(state, proposal)
    if refusal is not None:
        why = replace(refusal, message=f"{refusal.message}; asked for by {by}")
        state.step.rejections.append((proposal, why))
        return
    _CARRIERS[type(proposal)](state, state.jobs[proposal.job_id], proposal)
    attempt = state.attempts[proposal.job_id]
    kind = REQUESTS[type(proposal)]
    state.put_attempt(replace(attempt, requested=PlannerRequest(kind, user=by)))


# ------------------------------------------------------------------ results of the actions


def checkpoint_taken(state: State, job: Job, attempt: Attempt, event: CheckpointTaken) -> None:
    """Note a job's checkpoint, also one that nobody asked for. A migrating job is stopped now."""
    when = moment(event.happened, attempt.launched, event.at) if event.happened else event.at
    if event.happened is not None and not is_newer(event.happened, job.saved_at):
        return
    job = state.put_job(replace(job, saved=event.progress or job.saved, saved_at=when))
    asked = attempt.asked(ActionKind.CHECKPOINT)
    if asked is None or not has_saved(job, asked.asked):
        return
    state.proposals.forget(job.id, TakeCheckpointNow.__name__)
    job = state.put_job(replace(job, save_s=when.since(asked.asked)))
    if job.spec.checkpoint.kind is CheckpointKind.EXIT:
        return  # it leaves now; its end or the deadline comes next
    _stop_if_wanted(state, job, attempt, asked)


def _stop_if_wanted(state: State, job: Job, attempt: Attempt, asked: Pending) -> None:
    """End a request to save that has been answered, and stop the attempt if it was for that."""
    attempt = state.put_attempt(without(attempt, ActionKind.CHECKPOINT))
    if (asked.stops or job.target is not None) and job.state is JobState.RUNNING:
        stop(state, job, attempt, StopReason.PREEMPTED)


def resized(state: State, job: Job, attempt: Attempt, event: Resized) -> None:
    """Complete a resize."""
    late = event.generation is not None and event.generation != attempt.generation
    if attempt.target == event.target and not late:
        state.proposals.forget(job.id, ResizeTo.__name__)
        end_resize(state, job, replace(attempt, cpu_list=event.cpu_list), event.target)


def shares_applied(state: State, job: Job, attempt: Attempt, event: SharesApplied) -> None:
    """Note the CPU shares that apply now, and the SM fraction of the next attempt."""
    asked = attempt.asked(ActionKind.SHARES)
    if asked is None or asked.shares != event.shares:
        return
    state.proposals.forget(job.id, SetShares.__name__)
    placement = replace(attempt.placement, shares=event.shares)
    wanted = placement.sm_fraction
    # Shares that change only CPUs or host memory have the attempt's SM fraction, and say nothing
    # about the next one.
    of_host = changes_cpus(attempt, event.shares) or changes_memory(attempt, event.shares)
    if wanted != attempt.placement.sm_fraction or not of_host:
        state.put_job(replace(job, sm_fraction=wanted))
    held = {(s.device, s.role, s.task): s.sm_fraction for s in attempt.placement.shares}
    placement = replace(
        placement,
        shares=tuple(
            replace(s, sm_fraction=held[s.device, s.role, s.task]) for s in placement.shares
        ),
    )
    state.put_attempt(replace(without(attempt, ActionKind.SHARES), placement=placement))


def caps_raised(state: State, job: Job, attempt: Attempt, event: CapsRaised) -> None:
    """Note the memory caps that the driver enforces now."""
    asked = attempt.asked(ActionKind.CAPS)
    if asked is not None and asked.caps == event.caps:
        state.put_attempt(replace(without(attempt, ActionKind.CAPS), caps=event.caps))


def caps_refused(state: State, job: Job, attempt: Attempt, event: CapsRefused) -> None:
    """Note that no memory cap of the attempt is enforced."""
    state.put_attempt(replace(attempt, caps=(), caps_refused=event.reason))


ANSWERS: dict[type[AttemptEvent], Callable[[State, Job, Attempt, Any], None]] = {
    CheckpointTaken: checkpoint_taken,
    Resized: resized,
    SharesApplied: shares_applied,
    CapsRaised: caps_raised,
    CapsRefused: caps_refused,
}
"""What follows an answer to an action about a live attempt."""


def action_failed(
    state: State,
    job: Job,
    attempt: Attempt,
    action: DueAction,
    reason: str,
    passing: bool,
    stops: bool = False,
) -> None:
    """Undo what an action was for, if it is still pending; `stops`: stop the attempt instead.

    A server that cannot set shares now will not later, unless the reason is `passing`: then no
    planner is heard about them again, for a controller asks at every interval.
    """
    for pending in attempt.pending:
        if is_about(action, action_of(attempt, pending)):
            if stops and pending.kind is ActionKind.RESIZE:
                _stop_uncertain(state, job, attempt, reason)
                continue
            # It has not been asked; but an earlier daemon may have done so, and then a job that is
            # just leaving for that is asked again in vain.
            own = pending.asked.boot_s >= state.listens_s
            if pending.kind is ActionKind.CHECKPOINT and own:
                attempt = state.put_attempt(replace(attempt, checkpoint_asked=pending.before))
            _undo(state, job, attempt, pending.kind, reason)
            lasting = pending.kind is ActionKind.SHARES and not passing
            if lasting and changes_cpus(attempt, pending.shares):
                now = state.attempts[job.id]
                state.put_attempt(replace(now, shares_refused=reason))


def at_deadline(state: State, job: Job, attempt: Attempt) -> None:
    """Give up the pending actions of an attempt that are overdue."""
    for pending in attempt.pending:
        now = state.live_attempt(job.id, attempt.serial)
        if now is None or state.step.now.boot_s < pending.due_boot_s:
            continue
        limit = show_seconds(ceil(pending.due_boot_s - pending.asked.boot_s))
        if pending.kind is ActionKind.CHECKPOINT and has_saved(state.jobs[job.id], pending.asked):
            # It has saved and stayed, although it was to leave.
            _stop_if_wanted(state, state.jobs[job.id], now, pending)
            continue
        if pending.kind is ActionKind.RESIZE:
            _resize_overdue(state, state.jobs[job.id], now, pending, limit)
            continue
        what = ": it has not saved its work" if pending.kind is ActionKind.CHECKPOINT else ""
        why = f"no answer within {limit}{what}"
        _undo(state, state.jobs[job.id], now, pending.kind, why)


def _resize_overdue(state: State, job: Job, attempt: Attempt, pending: Pending, limit: str) -> None:
    """Withdraw a resize; stop the attempt if that was not answered either."""
    if attempt.stop is None and not pending.withdrawn:
        withdraw(state, job, attempt, pending)
        return
    why = f"a resize of it had no answer, and within {limit} its withdrawal had none"
    _stop_uncertain(state, job, attempt, why)


def _stop_uncertain(state: State, job: Job, attempt: Attempt, why: str) -> None:
    """Stop an attempt of which nobody knows whether it has its placement or its target.

    Its devices stay reserved until it has ended, for its tasks may be on all of them.
    """
    attempt = state.put_attempt(without(attempt, ActionKind.RESIZE))
    if attempt.stop is None:
        _delay_next(state, job.id, ResizeTo, why)
        stop(state, job, attempt, StopReason.PREEMPTED, why)


def _undo(state: State, job: Job, attempt: Attempt, kind: ActionKind, reason: str) -> None:
    """Act on the failure of a pending action, and delay the next such proposal."""
    if kind is ActionKind.KILL:
        give_up(state, job, attempt)
        return
    if kind is ActionKind.RESIZE:
        end_resize(state, job, attempt, attempt.placement, failed=reason)
        _delay_next(state, job.id, ResizeTo, reason)
        return
    asked = attempt.asked(kind)
    assert asked is not None
    attempt = state.put_attempt(without(attempt, kind))
    if kind is ActionKind.SHARES and changes_memory(attempt, asked.shares):
        state.proposals.fail(job.id, GROWTH, state.step.now.boot_s, reason)
    elif kind is ActionKind.SHARES:
        _delay_next(state, job.id, SetShares, reason)
    elif kind is ActionKind.CAPS:
        state.proposals.fail(job.id, RAISE, state.step.now.boot_s, reason)
    elif kind is ActionKind.CHECKPOINT:
        stopping: type[Proposal] = Migrate if job.target is not None else Preempt
        proposed = stopping if asked.stops or job.target is not None else TakeCheckpointNow
        # One that leaves when it is asked may still do so, and then for this request.
        leaves = job.spec.checkpoint.kind is CheckpointKind.EXIT
        late = leaves and attempt.checkpoint_asked == asked.asked
        behind = attempt.goes_behind and late
        attempt = replace(attempt, checkpoint_failed=reason, goes_behind=behind)
        if job.target is not None and job.spec.resizing is Resizing.RESTART:
            resizes = job.target.tasks() != attempt.placement.tasks()
            attempt = replace(attempt, resize_failed=reason if resizes else None)
            _delay_next(state, job.id, ResizeTo, reason)
        state.put_attempt(attempt)
        drop_target(state, job)
        _delay_next(state, job.id, proposed, reason)
    elif attempt.stop is None:
        stop(state, job, attempt, StopReason.LOST, f"its launch had {reason}")
