"""Carry out or reject a proposal; delay the next one after a failure.

Every proposal is checked against the present state. If a proposal's action fails, the next one
of this kind for this job waits, longer after each failure. So does one that is carried out too
often within a second. A *rejected* proposal does not wait: it costs one check and no action,
and its reason may be gone a moment later.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from radrm.core.constraints.proposal import check
from radrm.core.lifecycle.asking import ask, stop
from radrm.core.lifecycle.followers import settle
from radrm.core.lifecycle.launching import start
from radrm.core.lifecycle.occupancy import take_target
from radrm.core.lifecycle.pending import begin_resize, delay_next
from radrm.core.lifecycle.timing import warn
from radrm.core.planning.reserving import put_planned
from radrm.core.proposals import (
    NAMES,
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
from radrm.core.records import Job, PlannerRequest, Refusal
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.core.words import ActionKind, CheckpointKind, Resizing, StopReason
from radrm.structs import replace

REQUESTS: dict[type[Proposal], str] = {
    kind: f"a {NAMES[kind]}" for kind in (Preempt, TakeCheckpointNow, Migrate, ResizeTo)
}
"""What a planner or user asks for by a proposal about a running job. New caps are not noted: a
controller sets them at every interval."""


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
        delay_next(state, job_id, kind, refusal.message)
    return refusal


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
    ask(state, job, state.attempts[job.id], ActionKind.SHARES, shares=proposal.shares)


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


def apply_request(state: State, proposal: Proposal, by: str) -> None:
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
