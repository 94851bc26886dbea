"""Ask the host for an action about a live attempt, or stop the attempt: TERM now, KILL later.

`pending.py` says what follows an action: its answer, a failure, its deadline, a restart.
"""

from __future__ import annotations

from typing import Any

from radrm.core.actions import (
    ApplyShares,
    AttemptAction,
    RaiseCaps,
    Resize,
    TakeCheckpoint,
    Terminate,
)
from radrm.core.lifecycle.occupancy import drop_target
from radrm.core.records import Attempt, Job, Pending, Stop
from radrm.core.settings import CoreSettings
from radrm.core.state.state import State
from radrm.core.state.timers import DEADLINE, KILL, Timer
from radrm.core.transitions import Trigger
from radrm.core.words import ActionKind, StopReason
from radrm.structs import replace

_SAVES = 3.0
"""A checkpoint may take this multiple of the job's stated cost."""


def limit_s(settings: CoreSettings, job: Job, kind: ActionKind, withdrawn: bool = False) -> float:
    """Return the seconds in which the host must answer an action. `withdrawn`: undo a resize."""
    if kind is ActionKind.CHECKPOINT:
        return max(settings.checkpoint_limit_s, _SAVES * (job.spec.checkpoint.cost_s or 0.0))
    if kind is ActionKind.RESIZE and not withdrawn:
        return settings.resize_limit_s
    return settings.unkillable_s if kind is ActionKind.KILL else settings.action_limit_s


def ask(state: State, job: Job, attempt: Attempt, kind: ActionKind, **details: Any) -> None:
    """Ask the host for an action, note it as pending, and set the timer of its deadline.

    `details`: fields of `Pending`. Launch and KILL are only noted: their callers have the action.
    """
    now, withdrawn = state.step.now, details.get("withdrawn", False)
    due_s = now.boot_s + limit_s(state.settings, job, kind, withdrawn)
    pending = Pending(kind, now, due_s, **details)
    if kind is ActionKind.CHECKPOINT:
        pending = replace(pending, before=attempt.checkpoint_asked)
        attempt = replace(attempt, checkpoint_asked=now, checkpoint_failed=None)
    attempt = state.put_attempt(replace(attempt, pending=(*attempt.pending, pending)))
    state.wake(Timer(due_s, DEADLINE, job.id, attempt.serial))
    action = action_of(attempt, pending)
    if action is not None:
        state.act(action)


def action_of(attempt: Attempt, pending: Pending) -> AttemptAction | None:
    """Return the action that is pending. None for a launch and a KILL."""
    job_id, serial, due_s = attempt.job_id, attempt.serial, pending.due_boot_s
    if pending.kind is ActionKind.CHECKPOINT:
        return TakeCheckpoint(job_id=job_id, serial=serial, due_boot_s=due_s)
    if pending.kind is ActionKind.RESIZE and attempt.target is not None:
        return Resize(
            job_id=job_id,
            serial=serial,
            due_boot_s=due_s,
            target=attempt.target,
            generation=attempt.generation,
            withdrawn=pending.withdrawn,
        )
    if pending.kind is ActionKind.SHARES:
        return ApplyShares(job_id=job_id, serial=serial, due_boot_s=due_s, shares=pending.shares)
    if pending.kind is ActionKind.CAPS:
        return RaiseCaps(job_id=job_id, serial=serial, due_boot_s=due_s, caps=pending.caps)
    return None


def without(attempt: Attempt, kind: ActionKind) -> Attempt:
    """Return an attempt's record without its pending action of a kind."""
    return replace(attempt, pending=tuple(p for p in attempt.pending if p.kind is not kind))


def stop(
    state: State, job: Job, attempt: Attempt, reason: StopReason, why: str | None = None
) -> None:
    """Stop an attempt. `why` becomes the job's reason.

    Stop reasons are ordered: CANCELLED > TIMEOUT > LOST > PREEMPTED. The reason of a stop
    under way may only move left, and its deadline stays. So no cancel is forgotten. The record
    keeps the earlier stop: it stands again if the later one came after the end.
    """
    now, earlier = state.step.now, attempt.stop
    if earlier is not None and not reason.overrides(earlier.reason):
        return
    if why is not None:
        job = state.put_job(replace(job, reason=why))
    if reason is not StopReason.PREEMPTED:
        drop_target(state, job)  # it does not go on there
        job = state.jobs[job.id]
    deadline = now.boot_s + state.settings.grace_s if earlier is None else earlier.kill_boot_s
    state.put_attempt(replace(attempt, stop=Stop(reason, now, deadline, why, earlier)))
    if earlier is not None:
        return
    state.move(job, Trigger.STOP)
    state.wake(Timer(deadline, KILL, job.id, attempt.serial))
    state.act(Terminate(job_id=job.id, serial=attempt.serial))
