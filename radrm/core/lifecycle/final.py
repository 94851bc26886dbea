"""End a job, after its last attempt or while it waits."""

from __future__ import annotations

from radrm.core.lifecycle.migration import drop_target
from radrm.core.records import Attempt, Job
from radrm.core.state.state import State
from radrm.core.transitions import Trigger
from radrm.core.words import Outcome


def finish(
    state: State, job: Job, trigger: Trigger, attempt: Attempt, reason: str | None = None
) -> None:
    """End a job with its attempt; `reason` replaces the attempt's reason."""
    drop_target(state, job)
    state.move(
        state.jobs[job.id],
        trigger,
        outcome=attempt.outcome or (Outcome(attempt.stop.reason.value) if attempt.stop else None),
        exit_code=attempt.exit_code,
        reason=reason or attempt.reason,
        ended=attempt.ended or state.step.now,
    )


def fail_waiting(state: State, job: Job, reason: str) -> None:
    """Fail a waiting job that can never run here."""
    drop_target(state, job)
    job = state.jobs[job.id]
    state.move(job, Trigger.FAIL, reason=reason, ended=state.step.now, pause=None)


def cancel_waiting(state: State, job: Job, reason: str) -> None:
    """Cancel a waiting job."""
    drop_target(state, job)
    state.move(
        state.jobs[job.id],
        Trigger.CANCEL,
        outcome=Outcome.CANCELLED,
        reason=reason,
        ended=state.step.now,
        pause=None,
    )
