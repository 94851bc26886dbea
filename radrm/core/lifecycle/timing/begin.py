"""A job that does not start before a moment (`--begin`).

Theory of operation. The moment is a date, so the wall clock decides. Until then the job is outside
the queue (`Job.awaits_begin`), blocks nobody and keeps its order key. A timer, which counts time
since boot, only asks for a look: a clock that was set back meanwhile sets another one. Each step
compares the two clocks (`follow_clock`), for a clock that was set forward.

What a restart sees: the flag in the job's record. `wake_for_begin` sets the timer again.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.records import CLOCK_SET_S, Instant, Job
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, BEGIN, Timer


def begins_in_s(job: Job, now: Instant) -> float:
    """Return the seconds until a job may start; 0 if it may."""
    begin_s = job.spec.begin_s
    return 0.0 if begin_s is None else max(0.0, begin_s - now.wall_s)


def with_begin(state: State, job: Job) -> Job:
    """Return a waiting job's record with `awaits_begin` as it is now, and set its timer."""
    awaits = begins_in_s(job, state.step.now) > 0
    if awaits:
        wake_for_begin(state, job)
    return job if awaits == job.awaits_begin else replace(job, awaits_begin=awaits)


def wake_for_begin(state: State, job: Job) -> None:
    """Set the timer of a job that waits for its moment."""
    now = state.step.now
    state.wake(Timer(now.boot_s + begins_in_s(job, now), BEGIN, job.id))


def at_begin(state: State, job: Job) -> bool:
    """Let a job into the queue if its moment has come. Returns whether it has."""
    if not job.awaits_begin or not job.state.waiting:
        return False
    now = with_begin(state, job)
    if now.awaits_begin:
        return False
    state.put_job(now)
    return True


def follow_clock(state: State) -> None:
    """Look at all dates again if the date has been set, or has run away, since the last look.

    Reservations for users look for themselves (`reservations/course.py`).
    """
    now, before_s = state.step.now, state.ahead_s
    ahead_s = now.wall_s - now.boot_s
    if before_s is not None and abs(ahead_s - before_s) <= CLOCK_SET_S:
        return
    state.ahead_s = ahead_s
    if before_s is not None:
        for job in [each for each in state.jobs.values() if each.awaits_begin]:
            at_begin(state, job)
        state.wake(Timer(now.boot_s, ALL_PLANNERS))
