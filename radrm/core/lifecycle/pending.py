"""Actions that the host has not answered: what follows each, by the table `PROTOCOL`.

Theory of operation
-------------------
An action that changes an attempt can fail silently: a program ignores the request to save its
state, a process hangs in the kernel, the daemon is killed between its decision and the action.
So such an action is *pending*, in the attempt's record, until one of these comes:

    kind        answer           `ActionFailed`       its deadline             restart
    LAUNCH      AttemptStarted   an end (scheduler)   stopped as lost          the host looks
    CHECKPOINT  CheckpointTaken  not saved            not saved; or it has,    asked again
                                                      and was to leave
    RESIZE      Resized          placement before     withdrawn; then stopped  asked again
    SHARES      SharesApplied    shares before        shares before            asked again
    CAPS        CapsRaised       caps before          caps before              asked again
    KILL        AttemptEnded     -                    `ending.give_up`         the host looks

*Not saved*: a migration gives up its target, and a preemption is called off. After a failure the
planners' next such proposal waits (`delay_next`). The action tells its deadline, so that the host
gives up in time, too.

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
is of an earlier boot. A signal says nothing of what is to be: a job may be leaving for the first
one. So a failure to send it again is no answer, and the request stays pending.

Theory of operation: resizes
----------------------------
New devices are reserved when a resize begins, and the old ones until it ends: new tasks start
beside the old ones, and the host knows best when the old ones are dead.

    begin -> Resize                  Resized: the target      ActionFailed: the placement before
      at the deadline: withdraw -> Resize(withdrawn)          (the same answers)
        at its deadline: the attempt is stopped as preempted  all devices, when it has ended

- No device is released before the host has said that no task uses it: by an answer, or by the end
  of the attempt. So a silent host costs the attempt, and never gives a GPU to two jobs.
- The reservation of tasks that stay becomes no larger. It does not shrink while a resize is under
  way (`usage.take_reading`), nor before new tasks beside them on the device have settled.
- A job that is resized by a restart (RESTART) has no target here: it moves like a migrating one
  (`occupancy.py`), to devices of which it may have some already.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from radrm.core.actions import Action, AttemptAction, Kill, Resize
from radrm.core.constraints.proposal import changes_cpus, changes_memory
from radrm.core.events import (
    ActionFailed,
    AttemptEnded,
    AttemptEvent,
    AttemptStarted,
    CapsRaised,
    CapsRefused,
    CheckpointTaken,
    Resized,
    SharesApplied,
)
from radrm.core.lifecycle.asking import action_of, ask, limit_s, stop, without
from radrm.core.lifecycle.ending import give_up
from radrm.core.lifecycle.launching import launches_work, moment, started
from radrm.core.lifecycle.memory import GROWTH, RAISE
from radrm.core.lifecycle.occupancy import drop_target, occupy, release_devices
from radrm.core.lifecycle.outcomes import has_saved, is_newer
from radrm.core.proposals import (
    Migrate,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    TakeCheckpointNow,
)
from radrm.core.records import Attempt, Job, Pending, Placement, Progress, Share, Task, by_task
from radrm.core.state.readings import merged
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, DEADLINE, KILL, Timer
from radrm.core.units import show_seconds
from radrm.core.words import ActionKind, CheckpointKind, JobState, Resizing, StopReason
from radrm.structs import replace


class _Failed(NamedTuple):
    """A pending action that came to nothing; `transient` and `stops` as in `ActionFailed`."""

    action: Pending
    why: str
    transient: bool = False
    stops: bool = False


_Answered: TypeAlias = Callable[[State, Job, Attempt, Any], None]
_Undo: TypeAlias = Callable[[State, Job, Attempt, _Failed], None]


# ------------------------------------------------------------------ launch, kill


def _launched(state: State, job: Job, attempt: Attempt, event: AttemptStarted) -> None:
    if attempt.started is None:
        launches_work(state)
        state.proposals.forget_failures(job.id)
        started(state, job, attempt, event.happened, event.cpu_list)


def _launch_overdue(state: State, job: Job, attempt: Attempt, failed: _Failed) -> None:
    attempt = state.put_attempt(without(attempt, ActionKind.LAUNCH))
    if attempt.stop is None:
        stop(state, job, attempt, StopReason.LOST, f"its launch had {failed.why}")


def at_kill(state: State, job: Job, attempt: Attempt) -> None:
    """Send KILL if it is due, and again after each grace time until the attempt has ended."""
    now_s, stop = state.step.now.boot_s, attempt.stop
    if stop is None or now_s < stop.kill_boot_s:
        return
    again = now_s + state.settings.grace_s
    attempt = state.put_attempt(replace(attempt, stop=replace(stop, kill_boot_s=again)))
    if attempt.asked(ActionKind.KILL) is None:
        ask(state, job, attempt, ActionKind.KILL)
    state.wake(Timer(again, KILL, attempt.job_id, attempt.serial))
    state.act(Kill(job_id=attempt.job_id, serial=attempt.serial))


# ------------------------------------------------------------------ checkpoint


def _checkpoint_taken(state: State, job: Job, attempt: Attempt, event: CheckpointTaken) -> None:
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


def _checkpoint_failed(state: State, job: Job, attempt: Attempt, failed: _Failed) -> None:
    # This daemon could not ask it; but an earlier one may have, and then the job is just leaving
    # for that: it has reset its handler, or has ended. Its end or the deadline answers.
    if failed.action.asked.boot_s < state.listens_s:
        return
    attempt = replace(attempt, checkpoint_asked=failed.action.before)
    _not_saved(state, job, attempt, failed.action, failed.why)


def _checkpoint_overdue(state: State, job: Job, attempt: Attempt, failed: _Failed) -> None:
    if has_saved(job, failed.action.asked):
        # It has saved and stayed, although it was to leave.
        _stop_if_wanted(state, job, attempt, failed.action)
    else:
        _not_saved(state, job, attempt, failed.action, f"{failed.why}: it has not saved its work")


def _not_saved(state: State, job: Job, attempt: Attempt, asked: Pending, why: str) -> None:
    """Give up what a request to save was for."""
    stopping: type[Proposal] = Migrate if job.target is not None else Preempt
    proposed = stopping if asked.stops or job.target is not None else TakeCheckpointNow
    # One that leaves when it is asked may still do so, and then for this request.
    leaves = job.spec.checkpoint.kind is CheckpointKind.EXIT
    late = leaves and attempt.checkpoint_asked == asked.asked
    behind = attempt.goes_behind and late
    attempt = without(attempt, ActionKind.CHECKPOINT)
    attempt = replace(attempt, checkpoint_failed=why, goes_behind=behind)
    if job.target is not None and job.spec.resizing is Resizing.RESTART:
        resizes = job.target.tasks() != attempt.placement.tasks()
        attempt = replace(attempt, resize_failed=why if resizes else None)
        delay_next(state, job.id, ResizeTo, why)
    state.put_attempt(attempt)
    drop_target(state, job)
    delay_next(state, job.id, proposed, why)


# ------------------------------------------------------------------ resize


def begin_resize(state: State, job: Job, attempt: Attempt, target: Placement) -> None:
    """Begin a resize. New devices are reserved now; old ones stay reserved until it ends."""
    more = _new_shares(attempt.placement, target)
    both = replace(target, shares=(*attempt.placement.shares, *more))
    number = attempt.generation + 1
    asked = replace(attempt, target=target, generation=number, resize_failed=None)
    attempt = state.put_attempt(asked)
    occupy(state, job, attempt, both, new=_devices(more))
    ask(state, job, attempt, ActionKind.RESIZE)


def _resized(state: State, job: Job, attempt: Attempt, event: Resized) -> None:
    late = event.generation is not None and event.generation != attempt.generation
    if attempt.target == event.target and not late:
        state.proposals.forget(job.id, ResizeTo.__name__)
        _end_resize(state, job, replace(attempt, cpu_list=event.cpu_list), event.target)


def _resize_failed(state: State, job: Job, attempt: Attempt, failed: _Failed) -> None:
    if failed.stops:
        _stop_uncertain(state, job, attempt, failed.why)
    else:
        _end_resize(state, job, attempt, attempt.placement, failed=failed.why)
        delay_next(state, job.id, ResizeTo, failed.why)


def _resize_overdue(state: State, job: Job, attempt: Attempt, failed: _Failed) -> None:
    """Withdraw a resize; stop the attempt if that was not answered either."""
    if attempt.stop is None and not failed.action.withdrawn:
        ask(state, job, without(attempt, ActionKind.RESIZE), ActionKind.RESIZE, withdrawn=True)
        return
    limit = _limit_of(failed.action)
    why = f"a resize of it had no answer, and within {limit} its withdrawal had none"
    _stop_uncertain(state, job, attempt, why)


def _stop_uncertain(state: State, job: Job, attempt: Attempt, why: str) -> None:
    """Stop an attempt of which nobody knows whether it has its placement or its target.

    Its devices stay reserved until it has ended, for its tasks may be on all of them.
    """
    attempt = state.put_attempt(without(attempt, ActionKind.RESIZE))
    if attempt.stop is None:
        delay_next(state, job.id, ResizeTo, why)
        stop(state, job, attempt, StopReason.PREEMPTED, why)


def _end_resize(
    state: State, job: Job, attempt: Attempt, placement: Placement, failed: str | None = None
) -> None:
    """End a resize with `placement`: the target, or the placement before if it has `failed`."""
    was, more = attempt.devices, _new_shares(attempt.placement, placement)
    tasks = _tasks_on(attempt, placement)
    attempt = replace(without(attempt, ActionKind.RESIZE), resize_failed=failed)
    if failed is None:
        # How far it is now is not known: its last report was about the size before.
        attempt = replace(attempt, sized=Progress(at=state.step.now))
    attempt = state.put_attempt(replace(attempt, placement=placement, target=None, tasks=tasks))
    gone = [uuid for uuid in sorted(was) if uuid not in placement.devices]
    usage = release_devices(state, job.id, gone)
    if usage:
        attempt = state.put_attempt(replace(attempt, usage=merged(attempt.usage, usage)))
    occupy(state, job, attempt, placement, new=())
    now_s = state.step.now.boot_s
    for uuid in _devices(more):
        ledger = state.ledgers.get(uuid)  # None: missing since a restart
        if ledger is not None and job.id in ledger.occupants:
            ledger.occupants[job.id].grow_again(now_s)
            ledger.load.warm_up(now_s)  # its tasks work only now


def _new_shares(before: Placement, then: Placement) -> list[Share]:
    """Return the shares of the tasks that are only in the later placement."""
    tasks = by_task(before.shares)
    return [share for share in then.shares if (share.role, share.task) not in tasks]


def _devices(shares: list[Share]) -> list[str]:
    return [share.device for share in shares if share.device is not None]


def _tasks_on(attempt: Attempt, placement: Placement) -> tuple[Task, ...]:
    """Return the tasks of a placement: present ones unchanged, and new ones."""
    before = {(task.role, task.number): task for task in attempt.tasks}
    wanted = by_task(placement.shares)
    return tuple(before.get(task) or Task(role=task[0], number=task[1]) for task in wanted)


# ------------------------------------------------------------------ shares, caps


def _shares_applied(state: State, job: Job, attempt: Attempt, event: SharesApplied) -> None:
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


def _shares_failed(state: State, job: Job, attempt: Attempt, failed: _Failed) -> None:
    """Keep the shares before.

    A server that cannot set shares now will not later, unless the reason is `transient`: then no
    planner is heard about them again, for a controller asks at every interval.
    """
    lasting = not failed.transient and changes_cpus(attempt, failed.action.shares)
    kept = without(attempt, ActionKind.SHARES)
    state.put_attempt(replace(kept, shares_refused=failed.why) if lasting else kept)
    if changes_memory(attempt, failed.action.shares):
        state.proposals.fail(job.id, GROWTH, state.step.now.boot_s, failed.why)
    else:
        delay_next(state, job.id, SetShares, failed.why)


def _caps_raised(state: State, job: Job, attempt: Attempt, event: CapsRaised) -> None:
    asked = attempt.asked(ActionKind.CAPS)
    if asked is not None and asked.caps == event.caps:
        state.put_attempt(replace(without(attempt, ActionKind.CAPS), caps=event.caps))


def _caps_failed(state: State, job: Job, attempt: Attempt, failed: _Failed) -> None:
    state.put_attempt(without(attempt, ActionKind.CAPS))
    state.proposals.fail(job.id, RAISE, state.step.now.boot_s, failed.why)


def _caps_refused(state: State, job: Job, attempt: Attempt, event: CapsRefused) -> None:
    """Note that no memory cap of the attempt is enforced. No action asks for that."""
    state.put_attempt(replace(attempt, caps=(), caps_refused=event.reason))


# ------------------------------------------------------------------ the table


class _Row(NamedTuple):
    answer: type[AttemptEvent]
    answered: _Answered | None
    failed: _Undo | None
    overdue: _Undo


PROTOCOL: dict[ActionKind, _Row] = {
    ActionKind.LAUNCH: _Row(AttemptStarted, _launched, None, _launch_overdue),
    ActionKind.CHECKPOINT: _Row(
        CheckpointTaken, _checkpoint_taken, _checkpoint_failed, _checkpoint_overdue
    ),
    ActionKind.RESIZE: _Row(Resized, _resized, _resize_failed, _resize_overdue),
    ActionKind.SHARES: _Row(SharesApplied, _shares_applied, _shares_failed, _shares_failed),
    ActionKind.CAPS: _Row(CapsRaised, _caps_raised, _caps_failed, _caps_failed),
    ActionKind.KILL: _Row(AttemptEnded, None, None, lambda *its: give_up(*its[:3])),
}
"""None: the end of the attempt, which the host reports as such (`ending.ended`)."""

ANSWERS: dict[type[AttemptEvent], _Answered] = {
    **{row.answer: row.answered for row in PROTOCOL.values() if row.answered is not None},
    CapsRefused: _caps_refused,
}
"""What follows an answer about a live attempt."""


def action_failed(state: State, job: Job, attempt: Attempt, event: ActionFailed) -> None:
    """Undo what an action was for, if it is still pending."""
    for pending in attempt.pending:
        undo = PROTOCOL[pending.kind].failed
        if undo is not None and _is_about(event.action, action_of(attempt, pending)):
            failed = _Failed(pending, event.reason, event.transient, event.stops)
            undo(state, job, attempt, failed)


def _is_about(action: Action, pending: AttemptAction | None) -> bool:
    """Return whether a failed action is the pending one, at whatever deadline a resize is asked."""
    if isinstance(action, Resize) and isinstance(pending, Resize):
        return (action.serial, action.generation) == (pending.serial, pending.generation)
    return action == pending


def at_deadline(state: State, job: Job, attempt: Attempt) -> None:
    """Give up the pending actions of an attempt that are overdue."""
    for pending in attempt.pending:
        now = state.live_attempt(job.id, attempt.serial)
        if now is not None and state.step.now.boot_s >= pending.due_boot_s:
            failed = _Failed(pending, f"no answer within {_limit_of(pending)}", transient=True)
            PROTOCOL[pending.kind].overdue(state, state.jobs[job.id], now, failed)


def _limit_of(pending: Pending) -> str:
    return show_seconds(ceil(pending.due_boot_s - pending.asked.boot_s))


def delay_next(state: State, job_id: int, kind: type[Proposal], why: str) -> None:
    """Delay the next proposal of this kind for this job, longer each time."""
    now_s = state.step.now.boot_s
    failed = state.proposals.fail(job_id, kind.__name__, now_s, why)
    state.wake(Timer(failed.until_s, ALL_PLANNERS))


def renew(state: State, job: Job, attempt: Attempt) -> None:
    """Set the timers of a live attempt's deadlines after a restart, and ask again.

    No deadline is later than it would be if the action were asked for now: one of an earlier boot
    means nothing.
    """
    now_s = state.step.now.boot_s
    stop = attempt.stop
    if stop is not None:
        stop = replace(stop, kill_boot_s=min(stop.kill_boot_s, now_s + state.settings.grace_s))
        attempt = state.put_attempt(replace(attempt, stop=stop))
        state.wake(Timer(stop.kill_boot_s, KILL, job.id, attempt.serial))
    if attempt.shares_refused is not None:  # this daemon may have more rights
        attempt = state.put_attempt(replace(attempt, shares_refused=None))
    kept = tuple(
        replace(p, due_boot_s=min(p.due_boot_s, _due_if_asked_now(state, job, p)))
        for p in attempt.pending
    )
    if kept != attempt.pending:
        state.put_attempt(replace(attempt, pending=kept))
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
    for job, attempt in list(state.running()):
        stop, later = attempt.stop, []
        for each in attempt.pending:
            if each.withdrawn or action_of(attempt, each) is None:
                due_s = max(each.due_boot_s, _due_if_asked_now(state, job, each))
                each = replace(each, due_boot_s=due_s)
                state.wake(Timer(due_s, DEADLINE, job.id, attempt.serial))
            later.append(each)
        if stop is not None:
            kill_s = max(stop.kill_boot_s, state.step.now.boot_s + state.settings.grace_s)
            stop = replace(stop, kill_boot_s=kill_s)
            state.wake(Timer(kill_s, KILL, job.id, attempt.serial))
        state.put_attempt(replace(attempt, pending=tuple(later), stop=stop))


def _due_if_asked_now(state: State, job: Job, pending: Pending) -> float:
    limit = limit_s(state.settings, job, pending.kind, pending.withdrawn)
    return state.step.now.boot_s + limit
