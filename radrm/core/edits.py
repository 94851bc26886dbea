"""What people change about a job that is there: another wish, or another run."""

from __future__ import annotations

from dataclasses import replace

from radrm.core import lifecycle as life
from radrm.core.actions import EstimateJob
from radrm.core.dependencies import cycle, is_open
from radrm.core.events import EditRequested, RequeueRequested
from radrm.core.state.state import State
from radrm.core.validation import hopeless
from radrm.core.words import JobState, StopReason


def requeue(state: State, event: RequeueRequested) -> None:
    """Stop a live job and put it back in its queue, or run one again that has ended."""
    job = state.jobs.get(event.job.id)
    if job is None and not event.job.state.final:
        return  # its end is decided and was not known to whoever asked
    if job is None:
        open_yet = tuple(d for d in event.job.after if is_open(state, d))
        life.run_again(state, replace(event.job, after=open_yet))
        job = state.jobs[event.job.id]
        never = hopeless(state, job)
        if never is not None:
            life.refuse(state, job, never)
    elif job.state in (JobState.LAUNCHING, JobState.RUNNING):
        job = state.put_job(replace(job, setbacks=0))  # it is wanted, and no failure
        attempt, why = state.attempts[job.id], f"requeued by {event.by}"
        life.stop(state, job, attempt, StopReason.PREEMPTED, why)


def refuse(state: State, event: EditRequested) -> str | None:
    """Why a job cannot be changed so; None when it can.

    A waiting job may become anything that could run here. Of a live one only what
    concerns its future can change.
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
        retries=spec.retries,
        requeue=spec.requeue,
        comment=spec.comment,
    )
    if spec != future or event.after != job.after:
        return f"job {job.label} is {job.state.value}; that can change only while it waits"
    return None


def edit(state: State, event: EditRequested) -> None:
    """Change a job, unless it cannot be changed so (then it stays as it was)."""
    if refuse(state, event) is not None:
        return
    old = state.jobs[event.job_id].spec
    before = (old.time_limit_s, old.signal)
    job = replace(state.jobs[event.job_id], spec=event.spec)
    state.proposals.forget_failures(job.id)
    if job.state.waiting:
        job = replace(job, after=event.after)
        if event.estimates is not None:
            job = replace(
                job,
                estimates=event.estimates,
                estimating=event.estimating,
                estimate_notes=(),
                fingerprint=event.fingerprint,
            )
        state.put_job(job)
        if event.estimating:
            state.act(EstimateJob(job_id=job.id))
        return
    state.put_job(job)
    attempt = state.attempts.get(job.id)
    limits = (job.spec.time_limit_s, job.spec.signal)
    if attempt is not None and limits != before:
        life.wake_for_limit(state, job, attempt)
