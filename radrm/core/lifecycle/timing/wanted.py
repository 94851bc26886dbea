"""Which timers are still needed. The records decide, so this is asked between steps only."""

from __future__ import annotations

from radrm.core.records import CLOCK_SET_S, Job
from radrm.core.state.state import State
from radrm.core.state.timers import BEGIN, CLOSING, ORDER_KEY, PAUSE_OVER, RESERVATION_OVER, Timer


def is_wanted(state: State, timer: Timer) -> bool:
    """Return whether a record still asks for a timer."""
    what, boot_s, job = timer.what, timer.boot_s, state.jobs.get(timer.job_id)
    if what == RESERVATION_OVER:
        return boot_s in (state.planned.wake_s, state.for_users.wake_s)
    if what == ORDER_KEY:
        return state.queue.is_wanted(timer)
    if what == CLOSING:
        return state.for_users.closing.get(timer.job_id) == boot_s
    if timer.serial:
        return state.live_attempt(timer.job_id, timer.serial) is not None
    if what == PAUSE_OVER:
        return job is not None and job.pause is not None and boot_s <= job.pause.until_boot_s
    if what == BEGIN:
        return job is not None and job.awaits_begin and _is_moment(state, job, boot_s)
    return not timer.job_id or (job is not None and job.estimating)


def _is_moment(state: State, job: Job, boot_s: float) -> bool:
    """Return whether a job may begin by this time. Edits leave timers of later moments."""
    begin_s, ahead_s = job.spec.begin_s, state.ahead_s
    return begin_s is None or ahead_s is None or boot_s <= begin_s - ahead_s + 2 * CLOCK_SET_S
