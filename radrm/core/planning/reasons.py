"""Why a waiting job does not start now, or a running one does not grow. Only on demand."""

from __future__ import annotations

from math import ceil

from radrm.core.constraints.placement import refuse_start
from radrm.core.lifecycle.followers import waits_for, why_stopped
from radrm.core.lifecycle.timing import begins_in_s
from radrm.core.planning.planners import Planners
from radrm.core.records import Instant, Job, Refusal, Use
from radrm.core.state.state import State
from radrm.core.state.users import GPUS, RUNNING_JOBS
from radrm.core.units import show_seconds
from radrm.core.words import JobState, Resizing


def why_waiting(state: State, planners: Planners, job: Job, now: Instant) -> tuple[Refusal, ...]:
    """Return why `job` waits: what keeps it out of the queue, else the planners' reasons."""
    # Constraints and planners read the time of the current step, so this begins one.
    state.begin(now)
    outside = _outside_queue(state, job, now)
    if outside is not None:
        return (outside,)
    nowhere = refuse_start(state, job)
    if nowhere is not None:
        return (nowhere,)
    errors = tuple(Refusal("rule", line) for line in state.isolation.errors(now.boot_s))
    refused = state.proposals.refused.of(job.id, now.boot_s)
    found = (*planners.explain(job), *refused, *errors)
    found = found or state.proposals.refused.of(job.id, now.boot_s, stands=False)
    found = found or (Refusal("next", "it is about to start"),)
    bound = state.queue.order.bound(job) if planners.keeps_order() else None
    turn = _turn(state, job) if planners.keeps_order() else None
    more = (("turn", turn), ("bound", bound))
    return (*found, *(Refusal(rule, why) for rule, why in more if why is not None))


def would_start(state: State, planners: Planners, job: Job, now: Instant, alone: bool) -> bool:
    """Return whether a waiting job would start now if its record were this one.

    `alone`: if no job were before it. Else False for a job that is not the next of its line.
    """
    state.begin(now)
    if refuse_start(state, job) is not None or state.users.refuse(job, job.gpus) is not None:
        return False
    if job.spec.gpus and state.lines.verdicts.judge(job) is not None:
        return False
    # That others may pass the first of a line does not keep it from starting.
    aside = ("backfill", "order") if alone else ("backfill",)
    return all(refusal.rule in aside for refusal in planners.explain(job))


def _at_most(job: Job, now: Instant) -> str:
    """Return for how long a job waits for its estimate at most."""
    if job.estimate_due_boot_s is None:
        return ""
    return f", for at most {show_seconds(max(0.0, job.estimate_due_boot_s - now.boot_s))} more"


def _turn(state: State, job: Job) -> str | None:
    """Return, where users take turns, who is first now and what both have used; None if it is a
    job of the same user."""
    line = state.lines.line_of_job(job)
    first = line.head() if state.queue.order.ranks and job.id in line else None
    if first is None or (head := state.jobs[first]).spec.uid == job.spec.uid:
        return None
    mine, theirs = (state.uses.of(each.spec) for each in (job, head))
    return (
        f"users take turns by recent GPU time: {mine.user} has used {_hours(mine.own)}, "
        f"{theirs.user} (first now) {_hours(theirs.own)}"
    )


def _hours(use: Use) -> str:
    return f"{use.gpu_s / 3600:.1f} h"


def why_size(state: State, planners: Planners, job_id: int, now: Instant) -> tuple[Refusal, ...]:
    """Return the planners' reasons for the present size of a running job that could get another,
    and what they propose for a running job and is refused."""
    job = state.jobs.get(job_id)
    if job is None or job.state is not JobState.RUNNING:
        return ()
    refused = state.proposals.refused.of(job_id, now.boot_s)
    if job.spec.resizing is Resizing.NONE:
        return refused
    state.begin(now)
    return (*planners.explain_size(job), *refused)


def _outside_queue(state: State, job: Job, now: Instant) -> Refusal | None:
    """Return why a waiting job is not in the queue; None if it is."""
    if job.held:
        return Refusal("held", f"it is held until it is released (radrm release {job.label})")
    if job.awaits_begin:
        return Refusal("begin", f"it begins in {show_seconds(ceil(begins_in_s(job, now)))}")
    if job.estimating:
        return Refusal("estimating", f"its memory is being estimated{_at_most(job, now)}")
    if job.pause is not None:
        left_s = ceil(job.pause.left_s(now))
        return Refusal("pause", f"it waits {show_seconds(left_s)} {job.pause.reason}")
    if job.after:
        return Refusal("dependency", waits_for(state, job))
    if (stopped := why_stopped(state, job)) is not None:
        return Refusal("max-fails", stopped)
    array = state.queue.arrays.get(job.array.array_id) if job.array else None
    if array is not None and array.at_once is not None and array.stands_aside(job.id):
        why = f"array limit ({array.at_once}) reached: it starts when an earlier element ends"
        return Refusal("array", why)
    aside = state.lines.why_aside(job.id)
    if aside is None:
        return _no_place(state, job)
    # Judged again: the reason may tell how long a reservation lasts.
    return (state.lines.verdicts.judge(job) or aside).refusal


def _no_place(state: State, job: Job) -> Refusal | None:
    """Return why a waiting job has no place among those of its user; None if it lacks none."""
    first_id = state.lines.next_of_user(job)
    if first_id is None:
        return None
    refusal = state.users.refuse(job, job.gpus)
    if refusal is not None:
        return refusal
    most_jobs, most_gpus = state.users.limits(job.spec.uid)
    use, who = state.users.of(job.spec.uid), job.spec.user
    first = f"job {state.jobs[first_id].label} comes first"
    if most_jobs:
        runs = f"user {who} runs {use.running} of at most {most_jobs} jobs"
        return Refusal(RUNNING_JOBS, f"{runs} (limits.running_jobs), and {first}")
    why = f"user {who} uses {use.gpus} of at most {most_gpus} GPUs (limits.gpus), and {first}"
    return Refusal(GPUS, why)
