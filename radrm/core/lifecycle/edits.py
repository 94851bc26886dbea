"""Commands of users about a job: submit, hold, cancel, requeue, edit."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.actions import EstimateJob
from radrm.core.constraints.claims import longer_than_reserved
from radrm.core.constraints.feasibility import hopeless
from radrm.core.events import (
    CancelRequested,
    EditRequested,
    EstimateReady,
    HoldRequested,
    JobSubmitted,
    PredictionsReady,
    RequeueRequested,
)
from radrm.core.lifecycle.asking import ask, stop
from radrm.core.lifecycle.followers import cycle, go_on, is_open
from radrm.core.lifecycle.leaving import cancel_waiting, fail_waiting, run_again
from radrm.core.lifecycle.occupancy import drop_target
from radrm.core.lifecycle.outcomes import FROM_START, REQUEUE
from radrm.core.lifecycle.timing import end_silence, wake_for_limit, with_begin
from radrm.core.records import DECLARED, MEASURED, Estimate, Job, PlannerRequest
from radrm.core.state.state import State
from radrm.core.state.timers import ESTIMATE, Timer
from radrm.core.units import show_seconds
from radrm.core.words import ActionKind, CheckpointKind, JobState, Quantity, StopReason
from radrm.structs import replace


def submit(state: State, event: JobSubmitted) -> None:
    """Add a new job. A job that can never run here fails at once, with the reason."""
    if event.job.id in state.jobs:
        return  # a crash came between saving the job and removing its envelope
    job = state.put_job(with_begin(state, event.job))
    never = event.refused if event.refused is not None else hopeless(state, job)
    if never is not None:
        fail_waiting(state, job, never)
    elif job.estimating:
        ask_estimators(state, job)


def ask_estimators(state: State, job: Job) -> None:
    """Have the estimators asked, with a deadline."""
    due_s = state.step.now.boot_s + state.settings.estimate_limit_s
    state.put_job(replace(job, estimate_due_boot_s=due_s))
    state.wake(Timer(due_s, ESTIMATE, job.id))
    state.act(EstimateJob(job_id=job.id))


def at_estimate_deadline(state: State, job: Job) -> bool:
    """Let a job go on without an answer of the estimators, if that is due. Returns whether."""
    due_s = job.estimate_due_boot_s
    if not job.estimating or due_s is None or state.step.now.boot_s < due_s:
        return False
    note = f"the estimators gave no answer within {show_seconds(state.settings.estimate_limit_s)}"
    state.put_job(replace(job, estimating=False, estimate_notes=(*job.estimate_notes, note)))
    return True


def estimated(state: State, event: EstimateReady) -> None:
    """Save the estimates of a job, which may enter the queue now."""
    job = state.jobs.get(event.job_id)
    if job is not None and job.estimating:
        known = replace(job, estimates=event.estimates, estimate_notes=event.notes)
        state.put_job(replace(known, estimating=False))


def predicted(state: State, event: PredictionsReady) -> None:
    """Save new predictions of the SM activity and duration of waiting jobs.

    What was declared, and what a job's own attempts have shown, stays. So does its memory: the
    devices that it fits on, and what a user was told, do not change while it waits.
    """
    for job_id, estimates in event.estimates:
        job = state.jobs.get(job_id)
        if job is not None and job.state.waiting and not job.estimating:
            _predict(state, job, estimates)
    for job_id, profile in event.profiles:
        job = state.jobs.get(job_id)
        if job is not None and job.state.waiting and job.profile != profile:
            state.put_job(replace(job, profile=profile))


def _predict(state: State, job: Job, estimates: Sequence[Estimate]) -> None:
    known = job.estimates
    for quantity in (Quantity.SMACT, Quantity.USUAL_SMACT, Quantity.DURATION):
        best = job.estimate(quantity)
        newer = tuple(each for each in estimates if each.quantity is quantity)
        if newer and (best is None or best.source not in (DECLARED, MEASURED)):
            known = (*(each for each in known if each.quantity is not quantity), *newer)
    if _figures(known) != _figures(job.estimates):
        state.put_job(replace(job, estimates=known))


def _figures(estimates: Sequence[Estimate]) -> set[tuple[Quantity, str, float, float]]:
    """Return what two answers that say the same have in common, however long they took."""
    return {(each.quantity, each.source, each.value, each.upper) for each in estimates}


def not_estimated(state: State, job_id: int) -> None:
    """Let a job go on with its present estimates: the estimators could not run."""
    job = state.jobs.get(job_id)
    if job is not None and job.estimating:
        state.put_job(replace(job, estimating=False))


def cancel(state: State, event: CancelRequested) -> None:
    """Cancel a waiting job, or stop a live one."""
    job = state.jobs.get(event.job_id)
    if job is None:
        return
    reason = f"cancelled by {event.by}"
    if job.state.waiting:
        cancel_waiting(state, job, reason)
    else:
        stop(state, job, state.attempts[job.id], StopReason.CANCELLED, reason)


def hold(state: State, event: HoldRequested) -> None:
    """Hold a waiting job, or release it. A release also ends its pause, and its array's stop."""
    job = state.jobs.get(event.job_id)
    if job is not None and not event.held:
        go_on(state, job)
        job = state.jobs[job.id]
    if job is not None and job.state.waiting:
        pause = job.pause if event.held else None
        state.put_job(replace(job, held=event.held, pause=pause))


def requeue(state: State, event: RequeueRequested) -> None:
    """Return a live job to its queue, or run an ended job again. Either goes behind all others.

    A running job that can save does so first, as for a planner's preemption: if it does not save in
    time, it runs on. A job that begins anew is stopped at once.
    """
    job = state.jobs.get(event.job.id)
    if job is None and not event.job.state.final:
        return  # it ended after the command was accepted
    if event.job.outer is not None and job is None:
        return  # nobody waits to run it
    if job is None:
        _run_again(state, event.job, event.from_start)
    elif job.state in (JobState.LAUNCHING, JobState.RUNNING):
        # The user asks for this, so it must not lead to a pause.
        state.put_job(replace(job, setbacks=0))
        drop_target(state, job)  # a job behind all others does not go on there
        job = state.jobs[job.id]
        why, kind = f"requeued by {event.by}", FROM_START if event.from_start else REQUEUE
        requested = PlannerRequest(kind, user=event.by, why=why)
        attempt = replace(state.attempts[job.id], requested=requested, goes_behind=True)
        attempt = state.put_attempt(attempt)
        if event.from_start or not saves_first(job):
            stop(state, job, attempt, StopReason.PREEMPTED, why)
        elif attempt.asked(ActionKind.CHECKPOINT) is not None:
            stopping = (
                replace(each, stops=each.stops or each.kind is ActionKind.CHECKPOINT)
                for each in attempt.pending
            )
            state.put_attempt(replace(attempt, pending=tuple(stopping)))
        else:
            ask(state, job, attempt, ActionKind.CHECKPOINT, stops=True)


def saves_first(job: Job) -> bool:
    """Return whether a live job is asked to save before it returns to its queue."""
    return job.state is JobState.RUNNING and job.spec.checkpoint.kind is not CheckpointKind.NONE


def _run_again(state: State, job: Job, from_start: bool) -> None:
    """Run an ended job again. Of its dependencies only the open ones stay."""
    open_yet = tuple(d for d in job.after if is_open(state, d))
    run_again(state, with_begin(state, replace(job, after=open_yet)), from_start)
    job = state.jobs[job.id]
    never = hopeless(state, job)
    if never is not None:
        fail_waiting(state, job, never)
    elif job.estimating:
        ask_estimators(state, job)


def refuse_again(state: State, job: Job) -> str | None:
    """Return why an ended job, as changed, cannot run again; None if it can."""
    return cycle(state, job, job.after) or hopeless(state, job)


def refuse(state: State, event: EditRequested) -> str | None:
    """Return why a job cannot be changed like this; None if it can.

    A waiting job may change in any way that can run here. Of a live job only what applies
    later can change, such as its time limit.
    """
    job = state.jobs.get(event.job_id)
    if job is None:
        return f"job {event.job_id} has ended"
    if job.state.waiting:
        loop = cycle(state, job, event.after) if event.after != job.after else None
        return loop or hopeless(state, replace(job, spec=event.spec))
    spec = event.spec
    future = replace(
        job.spec,
        time_limit_s=spec.time_limit_s,
        signal=spec.signal,
        priority=spec.priority,
        weight=spec.weight,
        due_s=spec.due_s,
        retries=spec.retries,
        retry_on=spec.retry_on,
        expect_idle=spec.expect_idle,
        # Nobody looks at the logs of an attempt that began without such a limit.
        silent_limit_s=spec.silent_limit_s if job.spec.silent_limit_s is not None else None,
        requeue=spec.requeue,
        comment=spec.comment,
    )
    needs_change = event.estimates not in (None, job.estimates)
    if spec != future or event.after != job.after or needs_change:
        return f"job {job.label} is {job.state.value}; that can change only while it waits"
    return longer_than_reserved(state, job, replace(job, spec=spec))


def edit(state: State, event: EditRequested) -> None:
    """Change a job, unless `refuse` has a reason not to."""
    if refuse(state, event) is not None:
        return
    before = state.jobs[event.job_id]
    job = replace(before, spec=event.spec)
    # A proposal that failed for the old spec may work for the new one.
    state.proposals.forget_failures(job.id)
    if job.state.waiting:
        _edit_waiting(state, job, event)
        return
    state.put_job(job)
    attempt = state.attempts.get(job.id)
    if attempt is not None and job.spec.silent_limit_s != before.spec.silent_limit_s:
        end_silence(state, attempt)
        attempt = state.attempts[job.id]
    limits = (job.spec.time_limit_s, job.spec.signal)
    if attempt is not None and limits != (before.spec.time_limit_s, before.spec.signal):
        wake_for_limit(state, job, attempt)


def _edit_waiting(state: State, job: Job, event: EditRequested) -> None:
    job = with_begin(state, replace(job, after=event.after))
    if event.estimates is not None:
        job = job.estimated_anew(
            event.estimates, event.estimating, event.fingerprint, event.profile
        )
    state.put_job(job)
    if event.estimating:
        ask_estimators(state, state.jobs[job.id])
