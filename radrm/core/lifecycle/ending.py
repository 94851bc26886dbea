"""The end of an attempt: its record, its devices, its job's next state.

Theory of operation
-------------------
`ended` is the only end of a live attempt (`voided` for one that never started). In one step it
records how the attempt ended, releases its devices, and moves the job by one row of the
transition table:

    stopped              to the state of the stop's reason; if preempted, to its queue
    completed            COMPLETED
    left when asked to save its work   to its queue (`outcomes.has_left`); so does any end while a
                         user's requeue has it save, but one that has done all its work
    out of host memory   to its queue, larger; or FAILED (`memory.py`)
    out of GPU memory    RECOVERING, or FAILED (`recovery`)
    lost                 to its queue with --requeue, or while --retries last if it can save or has
                         saved; else FAILED
    its outer job has gone   as above, but it runs no more (`outer`)
    failed, may pass     to its queue, `CoreSettings.passing_retries` times; then as below
    failed               to its queue while --retries last and --retry-on fits, else FAILED

What it says of its devices, `state/doubts.py` remembers.

Invariants:
- A live attempt ends exactly once: handlers look it up by its serial, and do not find an ended
  attempt.
- The reason of a stop decides, whatever the exit code. A job that exits with 0 after the TERM
  of a cancel is cancelled.
- Devices are released in the same step, and take no job until a reading that began after the end:
  nothing of the attempt runs then, so its memory is given back. The host begins one as soon as
  that is so, and mostly has it before it knows how the attempt ended: the next job starts at once.
- A job whose processes outlive KILL (`give_up`) is not run again by itself: none runs twice.

What may interleave: an end may be reported before the start. It may have happened before a stop
that was asked for meanwhile (`outcomes.standing`). The end of an attempt that was given up
may be reported at any time, and is ignored; until then its memory counts as unmanaged.

What a restart sees: until the step is saved, the live attempt, and the host reports its end
again; afterwards the ended attempt and the job's next state. The report may be old, so the time
of an end comes from the host's record (`launching.moment`).
"""

from __future__ import annotations

from radrm.core.events import AttemptEnded
from radrm.core.lifecycle.asking import limit_s
from radrm.core.lifecycle.launching import launches_fail, moment, start_at_target, started
from radrm.core.lifecycle.leaving import (
    begun_anew,
    excused_retry,
    finish,
    refuse_retry,
    retry,
    return_to_queue,
    setback,
)
from radrm.core.lifecycle.memory import enlarged
from radrm.core.lifecycle.occupancy import drop_target, release_all
from radrm.core.lifecycle.outcomes import (
    FROM_START,
    REQUEUE,
    exit_code_of,
    outcome_of,
    reported,
    standing,
    used_s,
    why_ended,
    why_stopped,
    with_measured,
    with_saved,
)
from radrm.core.lifecycle.outer_job import end_without_outer, retries_loss, runs_again
from radrm.core.lifecycle.recovery import blame, recover
from radrm.core.records import Attempt, Chip, Job
from radrm.core.rules import Recovery
from radrm.core.state.doubts import QUICK_S, Tried
from radrm.core.state.readings import merged
from radrm.core.state.state import State
from radrm.core.state.timers import DOUBT_OVER, Timer
from radrm.core.transitions import Trigger
from radrm.core.units import show_seconds
from radrm.core.words import ActionKind, JobState, Outcome, StopReason
from radrm.structs import replace

_END_OF_STOP = {
    StopReason.TIMEOUT: Trigger.TIME_OUT,
    StopReason.CANCELLED: Trigger.CANCEL,
    StopReason.LOST: Trigger.FAIL,
}


def ended(state: State, job: Job, attempt: Attempt, event: AttemptEnded, rule: Recovery) -> None:
    """Record the end of an attempt, release its devices, and move its job."""
    if event.never_started is not None and (event.transient or event.excuse is not None):
        # The reason lies with the server and may be over soon, so the attempt does not count.
        # A user's files keep that user's jobs alone.
        voided(state, job, attempt, event.never_started, all_pause=event.transient)
        if event.transient:
            launches_fail(state, event.never_started)
        return
    job, attempt = _with_right_start(state, job, attempt, event)
    if event.oom is not None:
        whose = blame(state, job, attempt, event.oom)
        event = replace(event, oom=replace(event.oom, blame=whose))
    attempt = _record_end(state, job, attempt, event)
    _judge_devices(state, job, attempt)
    _move_job(state, state.jobs[job.id], attempt, event, rule)
    end_without_outer(state, job.id)
    planner = attempt.requested.planner if attempt.requested is not None else None
    start_at_target(state, state.jobs[job.id], planner)


def voided(
    state: State, job: Job, attempt: Attempt, reason: str | None, all_pause: bool = False
) -> None:
    """Undo an attempt that never started. The job returns to its queue.

    `reason`: why it could not be launched. None: no process of the launch exists. `all_pause`: it
    concerns all launches, which the caller pauses; else this job alone pauses.
    """
    release_all(state, attempt)
    why, now = reason or "never launched", state.step.now
    state.put_attempt(replace(attempt, ended=now, reason=why, pending=()))
    if attempt.stop is not None:
        _stopped(state, job, attempt)
        end_without_outer(state, job.id)
        return
    started = job.started if attempt.number > 1 else None
    changes = {} if all_pause else setback(state, job, attempt, reason or "its launch was void")
    return_to_queue(state, job, attempts=job.attempts - 1, started=started, **changes)


def give_up(state: State, job: Job, attempt: Attempt) -> None:
    """End an attempt whose processes outlive KILL: the kernel holds them."""
    stop = attempt.stop
    assert stop is not None
    # Preempted or not, it is not run again: the first run may go on.
    reason = StopReason.LOST if stop.reason is StopReason.PREEMPTED else stop.reason
    limit = show_seconds(state.settings.unkillable_s)
    stopped = why_stopped(job, stop, attempt.requested)
    why = f"{stopped}; its processes have not ended {limit} after KILL and may still run"
    attempt = state.put_attempt(
        replace(
            attempt,
            ended=state.step.now,
            outcome=Outcome(reason.value),
            reason=why,
            usage=merged(attempt.usage, release_all(state, attempt)),
            pending=(),
        )
    )
    finish(state, job, _END_OF_STOP[reason], attempt)


def _with_right_start(
    state: State, job: Job, attempt: Attempt, event: AttemptEnded
) -> tuple[Job, Attempt]:
    """Return the records with the right start: an end may be reported before the start."""
    if event.never_started is not None:
        # The processes existed for a moment, but did not run the job's command.
        started_before = job.started if attempt.number > 1 else None
        return state.put_job(replace(job, started=started_before)), replace(attempt, started=None)
    if job.state is JobState.LAUNCHING and event.lost is None:
        started(state, job, state.attempts[job.id])
    return state.jobs[job.id], state.attempts[job.id]


def _record_end(state: State, job: Job, attempt: Attempt, event: AttemptEnded) -> Attempt:
    """Release the attempt's devices and save how it ended."""
    end = moment(event.happened, attempt.started or attempt.launched, state.step.now)
    stop = standing(attempt.stop, event, end)
    if stop is not attempt.stop:
        job = state.put_job(replace(job, reason=stop.why if stop is not None else None))
        attempt = replace(attempt, stop=stop)
    usage = merged(attempt.usage, release_all(state, attempt, end))
    patience_s = limit_s(state.settings, job, ActionKind.CHECKPOINT)
    outcome = outcome_of(job, attempt, event, end, patience_s)
    code = exit_code_of(event.exits)
    saving = with_saved(job, attempt, event, end)
    attempt = state.put_attempt(
        replace(
            attempt,
            ended=end,
            outcome=outcome,
            exit_code=code,
            reason=why_stopped(job, attempt.stop, attempt.requested)
            or why_ended(outcome, event, code, attempt.tasks, attempt.requested),
            usage=usage,
            fraction=event.oom.fraction if event.oom and outcome is Outcome.OOM else None,
            reported=reported(attempt, job.progress),
            pending=(),
            left=event.left,
            tasks=tuple(
                replace(task, exit=event.exits[i] if i < len(event.exits) else None)
                for i, task in enumerate(attempt.tasks)
            ),
        )
    )
    taught = with_measured(saving, attempt, lambda: _chip_of(state, attempt))
    if outcome is Outcome.PREEMPTED:
        taught = replace(taught, used_s=used_s(taught, attempt))
    if taught is not job:
        state.put_job(taught)
    return attempt


_LONGER = 3.0
"""A live job works if it has run so many times as long as one that failed."""


def _judge_devices(state: State, job: Job, attempt: Attempt) -> None:
    """Doubt the device of an attempt that failed at once, or end the doubts about its devices."""
    now, tried = state.step.now, _tried_by(job, attempt)
    if tried is None:
        return
    if attempt.outcome is Outcome.COMPLETED or now.boot_s - tried.started_s >= QUICK_S:
        state.put_doubts(state.doubts.worked(tried))
        return
    if attempt.outcome is not Outcome.FAILED or len(tried.devices) > 1:
        return
    live = (_tried_by(state.jobs[job_id], each) for job_id, each in state.attempts.items())
    enough_s = min(QUICK_S, _LONGER * (now.boot_s - tried.started_s))
    works = (each for each in live if each is not None and now.boot_s - each.started_s >= enough_s)
    doubt = state.doubts.failed(tried, now, works)
    if doubt is not None:
        state.put_doubts([doubt])
        state.wake(Timer(state.doubts.until_s(doubt), DOUBT_OVER))
        uuid, uid = doubt
        gpu = state.ledgers[uuid].device.index if uuid in state.ledgers else uuid
        whose = "" if uid is None else f" of {tried.user}"
        state.step.log_lines.append(f"GPU {gpu} takes no job{whose}: {state.doubts.now[doubt]}")


def _tried_by(job: Job, attempt: Attempt) -> Tried | None:
    """Return where an attempt ran, and since when; None without a device, or if it never ran."""
    if attempt.started is None or not attempt.devices:
        return None
    started_s, submitted_s = attempt.started.boot_s, job.submitted.wall_s
    return Tried(job.spec.uid, job.spec.user, attempt.devices, started_s, submitted_s)


def lift_doubts(state: State) -> bool:
    """Let doubted devices be tried again whose pause is over. Returns whether there are any."""
    over = state.doubts.lift(state.step.now.boot_s)
    state.put_doubts(over)
    return bool(over)


def _chip_of(state: State, attempt: Attempt) -> Chip | None:
    """Return the kind of an attempt's GPUs; None if it is unknown, or they are of several kinds."""
    ledgers = [state.ledgers.get(uuid) for uuid in attempt.placement.devices]
    chips = {None if ledger is None else ledger.device.chip for ledger in ledgers}
    return chips.pop() if len(chips) == 1 else None


def _move_job(
    state: State, job: Job, attempt: Attempt, event: AttemptEnded, rule: Recovery
) -> None:
    outcome = attempt.outcome
    if attempt.stop is not None:
        _stopped(state, job, attempt)
    elif outcome is Outcome.COMPLETED:
        finish(state, job, Trigger.COMPLETE, attempt)
    elif outcome is Outcome.OOM and event.oom is not None:
        recover(state, job, attempt, event.oom, rule)
    elif outcome is Outcome.FAILED and _runs_again(state, job, attempt, event):
        return
    elif outcome is Outcome.PREEMPTED or (outcome is Outcome.LOST and runs_again(job)):
        _return(state, job, attempt, attempt.reason or outcome.value)
    elif (outcome is Outcome.LOST and retries_loss(job)) or (
        outcome is Outcome.FAILED
        and event.never_started is None  # such a command would fail again
        and job.retries_used < job.spec.retries
    ):
        _retry(state, job, attempt)
    else:
        finish(state, job, Trigger.FAIL, attempt)


def _retry(state: State, job: Job, attempt: Attempt) -> None:
    """Retry a job, or fail it if `--retry-on` has other exit codes."""
    why_not = refuse_retry(job, attempt)
    if why_not is None:
        retry(state, _as_requested(state, job, attempt), attempt)
    else:
        finish(state, job, Trigger.FAIL, attempt, f"{attempt.reason}; {why_not}")


def _runs_again(state: State, job: Job, attempt: Attempt, event: AttemptEnded) -> bool:
    """Move a failed job that runs again without using up its retries; False for any other."""
    if event.host_oom is not None and _enlarge(state, job, attempt, event.host_oom):
        return True
    if event.excuse is None:
        return False
    # The first time, the neighbour may have gone before anybody saw it.
    alone_again = event.beside and job.passing_used > 0 and _was_alone(state, attempt)
    return not alone_again and excused_retry(state, job, event.excuse, event.fault)


def _was_alone(state: State, attempt: Attempt) -> bool:
    """Return whether no other attempt was or is on its devices, and no unmanaged process."""
    ledgers = [state.ledgers.get(uuid) for uuid in attempt.placement.devices]
    quiet = all(each is not None and each.is_quiet and not each.occupants for each in ledgers)
    return quiet and not any(usage.shared for usage in attempt.usage)


def _enlarge(state: State, job: Job, attempt: Attempt, role: str) -> bool:
    """Run a job again, larger, that ran out of host memory, or fail it at its largest.

    It does not use up its retries. Returns False for a job without a range.
    """
    found = enlarged(state, job, attempt, role)
    if isinstance(found, Job):
        drop_target(state, job)  # its old size would die there again
        larger = {"memory_mib": found.memory_mib, "counts": found.counts}
        return_to_queue(state, state.jobs[job.id], **larger, setbacks=0)
    elif found is not None:
        finish(state, job, Trigger.FAIL, attempt, f"{attempt.reason}; {found}")
    return found is not None


def _return(state: State, job: Job, attempt: Attempt, why: str) -> None:
    """Return a lost or preempted job to its queue: to its place there, or behind all others."""
    changes = setback(state, job, attempt, why)
    return_to_queue(state, _as_requested(state, job, attempt), **changes)


def _as_requested(state: State, job: Job, attempt: Attempt) -> Job:
    """Return the record of a job that runs again as its last request has it: anew, or behind all.

    A lost job keeps its place, unless its user's requeue has stopped it. Jobs in the recovery queue
    are before all others, so one that goes behind leaves it.
    """
    asked = attempt.requested.kind if attempt.requested is not None else ""
    if asked == FROM_START:
        job = begun_anew(job)
    requeued = asked in (REQUEUE, FROM_START) and attempt.stop is not None
    if attempt.goes_behind and (requeued or attempt.outcome is Outcome.PREEMPTED):
        job = state.behind_all(job)
    return job


def _stopped(state: State, job: Job, attempt: Attempt) -> None:
    """Move a job whose stop is done, by the stop's reason."""
    assert attempt.stop is not None
    lost = attempt.stop.reason is StopReason.LOST and runs_again(job)
    if lost or attempt.stop.reason is StopReason.PREEMPTED:
        why = attempt.reason or attempt.stop.reason.value
        _return(state, job, attempt, why)
        return
    if attempt.stop.reason is StopReason.LOST and retries_loss(job):
        _retry(state, job, attempt)
        return
    finish(state, job, _END_OF_STOP[attempt.stop.reason], attempt, why_stopped(job, attempt.stop))
