"""An attempt's time limit, and the signal before it (`--signal`).

The limit is for a job's run: attempts that continue an earlier one's work have what that has left.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.actions import SendSignal
from radrm.core.lifecycle.stops import stop
from radrm.core.records import Attempt, Job
from radrm.core.state.state import State
from radrm.core.state.timers import TIME_LIMIT, Timer
from radrm.core.words import StopReason


def wake_for_limit(state: State, job: Job, attempt: Attempt) -> None:
    """Set timers for an attempt's time limit and for the signal before it."""
    limit, signal = job.limit_s, job.spec.signal
    if limit is None or attempt.started is None:
        return
    end = attempt.started.boot_s + limit
    state.wake(Timer(end, TIME_LIMIT, job.id, attempt.serial))
    if signal is not None and not attempt.signalled:
        state.wake(Timer(end - signal.lead_s, TIME_LIMIT, job.id, attempt.serial))


def at_limit(state: State, job: Job, attempt: Attempt) -> None:
    """Send the signal or stop the attempt, if that is due now.

    An edit may have moved the limit since the timer was set, so the record decides.
    """
    limit, signal = job.limit_s, job.spec.signal
    if limit is None or attempt.started is None:
        return
    end = attempt.started.boot_s + limit
    if state.step.now.boot_s >= end:
        stop(state, job, attempt, StopReason.TIMEOUT)
    elif (
        signal is not None
        and attempt.stop is None
        and not attempt.signalled
        and state.step.now.boot_s >= end - signal.lead_s
    ):
        state.put_attempt(replace(attempt, signalled=True))
        state.act(SendSignal(job_id=job.id, serial=attempt.serial, number=signal.number))
