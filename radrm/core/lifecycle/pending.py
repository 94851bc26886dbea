"""Actions that the host has not answered, and their deadlines.

Theory of operation
-------------------
An action that changes an attempt can fail silently: a program ignores the request to save its
state, a process hangs in the kernel, the daemon is killed between its decision and the action.
So such an action is *pending*, in the attempt's record, until its answer or its deadline.

    LAUNCH      until `AttemptStarted`; then the attempt is stopped as lost
    CHECKPOINT  until `CheckpointTaken`; then a migration gives up its target, and a preemption
                is called off. A job that saves and leaves (EXIT) has until then to leave, too
    RESIZE      until `Resized`; then it is withdrawn (`lifecycle/resizing.py`)
    SHARES      until `SharesApplied`; then the caps before stay
    CAPS        until `CapsRaised`; then the memory caps before stay
    KILL        from the first one until the end; then `ending.give_up`

The action tells its deadline, so that the host gives up in time, too. At the deadline the core
acts as on `ActionFailed` (`core/applying.py`).

Invariants:
- An attempt has at most one pending action of each kind. A resize and a change of shares exclude
  each other (`constraints/proposal.py`).
- `Attempt.target` exists only while a RESIZE is pending or the attempt is stopped; `Job.target` of
  a running job only while a CHECKPOINT is.
- Every pending action has a timer. An ended attempt has no pending action.

Which action an answer belongs to: `Resized`, `SharesApplied` and `CapsRaised` name what they have
reached, and `ActionFailed` holds its action. One that differs from what is pending is late, and is
ignored; a resize is known by its generation, also if it is withdrawn. Any checkpoint answers the
request for one, unless it is known to be older: the work is saved.

The host acts only when a decision is stored. After a store that could not be written
(`ActionsDelayed`), `put_off` has the deadlines of launches and stops count from now.

What a restart sees: the records. An action may not have reached the host before its daemon was
killed, and each one says what is to be, so `renew` asks for it again. Its deadline stays, unless it
is of an earlier boot.
"""

from __future__ import annotations

from radrm.core.actions import ApplyShares, AttemptAction, RaiseCaps, Resize, TakeCheckpoint
from radrm.core.lifecycle.outcomes import has_saved
from radrm.core.records import Attempt, Caps, Job, Pending, Share, changed
from radrm.core.settings import CoreSettings
from radrm.core.state.state import State
from radrm.core.state.timers import DEADLINE, KILL, Timer
from radrm.core.words import ActionKind

_SAVES = 3.0
"""A checkpoint may take this multiple of the job's stated cost."""


def limit_s(settings: CoreSettings, job: Job, kind: ActionKind) -> float:
    """Return the seconds in which the host must answer an action."""
    if kind is ActionKind.CHECKPOINT:
        return max(settings.checkpoint_limit_s, _SAVES * (job.spec.checkpoint.cost_s or 0.0))
    if kind is ActionKind.RESIZE:
        return settings.resize_limit_s
    return settings.unkillable_s if kind is ActionKind.KILL else settings.action_limit_s


def _limit_of(settings: CoreSettings, job: Job, pending: Pending) -> float:
    return settings.action_limit_s if pending.withdrawn else limit_s(settings, job, pending.kind)


def expect(
    state: State,
    job: Job,
    attempt: Attempt,
    kind: ActionKind,
    shares: tuple[Share, ...] = (),
    stops: bool = False,
    caps: Caps = (),
) -> Pending:
    """Note that the host is asked for this now, and set the timer of the deadline."""
    now = state.step.now
    due_s = now.boot_s + limit_s(state.settings, job, kind)
    pending = Pending(kind, now, due_s, shares, stops=stops, caps=caps)
    if kind is ActionKind.CHECKPOINT:
        pending = changed(pending, before=attempt.checkpoint_asked)
        attempt = changed(attempt, checkpoint_asked=now, checkpoint_failed=None)
    state.put_attempt(changed(attempt, pending=(*attempt.pending, pending)))
    state.wake(Timer(due_s, DEADLINE, job.id, attempt.serial))
    return pending


def ask(
    state: State,
    job: Job,
    attempt: Attempt,
    kind: ActionKind,
    shares: tuple[Share, ...] = (),
    stops: bool = False,
    caps: Caps = (),
) -> None:
    """Have the host take a checkpoint, resize, apply shares, or raise caps. `stops`: and then
    preempt it."""
    pending = expect(state, job, attempt, kind, shares, stops, caps)
    action = action_of(state.attempts[job.id], pending)
    assert action is not None
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


def is_about(action: AttemptAction, pending: AttemptAction | None) -> bool:
    """Return whether a failed action is the pending one, at whatever deadline a resize is asked."""
    if isinstance(action, Resize) and isinstance(pending, Resize):
        return (action.serial, action.generation) == (pending.serial, pending.generation)
    return action == pending


def without(attempt: Attempt, kind: ActionKind) -> Attempt:
    """Return an attempt's record without its pending action of a kind."""
    return changed(attempt, pending=tuple(p for p in attempt.pending if p.kind is not kind))


def renew(state: State, job: Job, attempt: Attempt) -> None:
    """Set the timers of a live attempt's deadlines after a restart.

    No deadline is later than it would be if the action were asked for now: one of an earlier boot
    means nothing.
    """
    now_s = state.step.now.boot_s
    if attempt.shares_refused is not None:  # this daemon may have more rights
        attempt = state.put_attempt(changed(attempt, shares_refused=None))
    kept = tuple(
        changed(p, due_boot_s=min(p.due_boot_s, now_s + _limit_of(state.settings, job, p)))
        for p in attempt.pending
    )
    if kept != attempt.pending:
        state.put_attempt(changed(attempt, pending=kept))
    for pending in kept:
        state.wake(Timer(pending.due_boot_s, DEADLINE, job.id, attempt.serial))
        action = action_of(state.attempts[job.id], pending)
        saved = pending.kind is ActionKind.CHECKPOINT and has_saved(job, pending.asked)
        if action is not None and pending.due_boot_s > now_s and not saved:
            state.act(action)


def put_off(state: State) -> None:
    """Have launches, stops and withdrawals count their time from now: the host begins them now.

    Other actions have told the host their deadline. They fail at it, and are proposed again.
    """
    now_s, settings = state.step.now.boot_s, state.settings
    for job, attempt in list(state.running()):
        stop, later = attempt.stop, []
        for each in attempt.pending:
            if each.withdrawn or action_of(attempt, each) is None:
                due_s = max(each.due_boot_s, now_s + _limit_of(settings, job, each))
                each = changed(each, due_boot_s=due_s)
                state.wake(Timer(due_s, DEADLINE, job.id, attempt.serial))
            later.append(each)
        if stop is not None:
            kill_s = max(stop.kill_boot_s, now_s + settings.grace_s)
            stop = changed(stop, kill_boot_s=kill_s)
            state.wake(Timer(kill_s, KILL, job.id, attempt.serial))
        state.put_attempt(changed(attempt, pending=tuple(later), stop=stop))
