"""Every possible state change of a job, in one table.

Nothing else in radrm sets `Job.state`. A pair (state, trigger) that the table lacks is a defect
and raises.
"""

from __future__ import annotations

from enum import Enum

from radrm.core.words import JobState


class Trigger(str, Enum):
    """What changes a job's state."""

    START = "start"  # a placement was accepted
    STARTED = "started"  # the processes exist
    STOP = "stop"  # a cancel, time limit or preemption begins
    COMPLETE = "complete"  # every task ended with 0, before any stop
    FAIL = "fail"  # it failed and is not run again, or can never run
    TIME_OUT = "time out"  # the stop at its time limit is done
    CANCEL = "cancel"  # cancelled while waiting, or the stop for a cancel is done
    RETURN = "return"  # to the main queue: void launch, retry, preemption, requeue of a live job
    RECOVER = "recover"  # into (or back to) the recovery queue
    REQUEUE = "requeue"  # a user has a job that has ended run again


_S = JobState
_T = Trigger

TABLE: dict[tuple[JobState, Trigger], JobState] = {
    (_S.PENDING, _T.START): _S.LAUNCHING,
    (_S.PENDING, _T.CANCEL): _S.CANCELLED,
    (_S.PENDING, _T.FAIL): _S.FAILED,
    (_S.RECOVERING, _T.START): _S.LAUNCHING,
    (_S.RECOVERING, _T.CANCEL): _S.CANCELLED,
    (_S.RECOVERING, _T.FAIL): _S.FAILED,
    (_S.LAUNCHING, _T.STARTED): _S.RUNNING,
    (_S.LAUNCHING, _T.STOP): _S.STOPPING,
    (_S.LAUNCHING, _T.FAIL): _S.FAILED,
    (_S.LAUNCHING, _T.RETURN): _S.PENDING,
    (_S.LAUNCHING, _T.RECOVER): _S.RECOVERING,
    (_S.RUNNING, _T.COMPLETE): _S.COMPLETED,
    (_S.RUNNING, _T.FAIL): _S.FAILED,
    (_S.RUNNING, _T.STOP): _S.STOPPING,
    (_S.RUNNING, _T.RETURN): _S.PENDING,
    (_S.RUNNING, _T.RECOVER): _S.RECOVERING,
    (_S.STOPPING, _T.COMPLETE): _S.COMPLETED,
    (_S.STOPPING, _T.TIME_OUT): _S.TIMEOUT,
    (_S.STOPPING, _T.CANCEL): _S.CANCELLED,
    (_S.STOPPING, _T.RETURN): _S.PENDING,
    (_S.STOPPING, _T.RECOVER): _S.RECOVERING,
    (_S.STOPPING, _T.FAIL): _S.FAILED,
    (_S.COMPLETED, _T.REQUEUE): _S.PENDING,
    (_S.FAILED, _T.REQUEUE): _S.PENDING,
    (_S.TIMEOUT, _T.REQUEUE): _S.PENDING,
    (_S.CANCELLED, _T.REQUEUE): _S.PENDING,
}


class ImpossibleTransition(Exception):
    """The table has no such row: a defect in radrm."""


def after(state: JobState, trigger: Trigger) -> JobState:
    """Return the next state. Raises `ImpossibleTransition` if the table has none."""
    try:
        return TABLE[state, trigger]
    except KeyError:
        raise ImpossibleTransition(f"a {state.value} job cannot {trigger.value}") from None
