"""Jobs that run inside a job of Slurm: the *outer* job.

Theory of operation. Slurm has started a batch step on this server. The step submits the job, waits,
and is the runner of its attempts; so the processes are Slurm's, too. The outer job can end at any
moment: `OuterGone`. Then nobody is left who could run the job, so it does not wait any more, and
whatever its attempt's end is, it is not run again: Slurm decides that, as another job of radrm.

Invariants:
- A job whose outer job has gone is not waiting after the step.
- An attempt that was lost is not run again, whatever `--requeue` says.
- The time limit is Slurm's: it ends the job there (`timing.py` stops none with an outer job).

What may interleave: the end of the attempt and that of the outer job come in any order. A restart
sees `OuterJob.gone` in the record.
"""

from __future__ import annotations

from radrm.core.events import OuterGone
from radrm.core.lifecycle.asking import stop
from radrm.core.lifecycle.launching import moment
from radrm.core.lifecycle.leaving import cancel_waiting
from radrm.core.records import Job
from radrm.core.state.state import State
from radrm.core.words import CheckpointKind
from radrm.structs import replace


def gone(state: State, event: OuterGone) -> None:
    """End the job of an outer job that ends. The first report counts."""
    job = state.jobs.get(event.job_id)
    if job is None or job.outer is None or job.outer.gone is not None:
        return
    job = state.put_job(replace(job, outer=replace(job.outer, gone=event.why)))
    if job.state.waiting:
        cancel_waiting(state, job, event.why)
        return
    stop(state, job, state.attempts[job.id], event.reason, event.why)
    attempt = state.attempts[job.id]
    if attempt.stop is not None and attempt.stop.reason is event.reason:
        # Its processes may have ended of it before this was known.
        since = moment(event.happened, attempt.launched, state.step.now)
        state.put_attempt(replace(attempt, stop=replace(attempt.stop, asked=since)))


def end_without_outer(state: State, job_id: int) -> None:
    """Cancel a job that has returned to its queue after its outer job had gone."""
    job = state.jobs.get(job_id)
    if job is not None and job.state.waiting and job.outer is not None and job.outer.gone:
        cancel_waiting(state, job, job.outer.gone)


def runs_again(job: Job) -> bool:
    """Return whether radrm runs a job again whose attempt was lost."""
    return job.spec.requeue and job.outer is None


def retries_loss(job: Job) -> bool:
    """Return whether a job may use a retry after it was lost: it goes on from its saved work.

    Of any other, part of its work would be done twice: that takes `--requeue`.
    """
    saves = job.spec.checkpoint.kind is not CheckpointKind.NONE or job.saved_at is not None
    return saves and job.outer is None and job.retries_used < job.spec.retries
