"""A job's life: every state change that exists, in one table.

The rule: nothing else in radrm sets `Job.state`; a pair (state, trigger) that is
not in the table is a defect and raises. The diagram in docs/architecture.md is
drawn from this table, and a test compares them.
"""

from __future__ import annotations

from enum import Enum

from radrm.core.words import JobState


class Trigger(str, Enum):
    START = "start"  # a placement was accepted
    STARTED = "started"  # the processes exist
    STOP = "stop"  # a cancel, time limit or preemption begins
    COMPLETE = "complete"  # every task ended with 0, before any stop
    FAIL = "fail"  # it ended badly for good, or can never run
    TIME_OUT = "time out"  # the stop for its time limit is done
    CANCEL = "cancel"  # cancelled while waiting, or the stop for a cancel is done
    RETURN = "return"  # back to the main queue: void launch, retry, preemption, requeue
    RECOVER = "recover"  # into (or back to) the recovery queue
    AGAIN = "requeue"  # one that has ended is run again because somebody says so


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
    (_S.COMPLETED, _T.AGAIN): _S.PENDING,
    (_S.FAILED, _T.AGAIN): _S.PENDING,
    (_S.TIMEOUT, _T.AGAIN): _S.PENDING,
    (_S.CANCELLED, _T.AGAIN): _S.PENDING,
}


class ImpossibleTransition(Exception):
    """A defect in radrm: the table has no such row."""


def after(state: JobState, trigger: Trigger) -> JobState:
    """The state that follows. Raises `ImpossibleTransition` where there is none."""
    try:
        return TABLE[state, trigger]
    except KeyError:
        raise ImpossibleTransition(f"a {state.value} job cannot {trigger.value}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> PENDING: submit"]
    lines += [f"    {a.value} --> {b.value}: {t.value}" for (a, t), b in TABLE.items()]
    lines += [f"    {s.value} --> [*]" for s in JobState if s.final]
    return "\n".join(lines) + "\n"
