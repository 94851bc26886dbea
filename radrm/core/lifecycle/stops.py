"""Stop an attempt: TERM now, KILL after the grace time, then KILL after each grace time.

The first KILL has a deadline: processes can be held by the kernel (`ending.give_up`).
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.actions import Kill, Terminate
from radrm.core.lifecycle.occupancy import drop_target
from radrm.core.lifecycle.pending import expect
from radrm.core.records import Attempt, Job, Stop
from radrm.core.state.state import State
from radrm.core.state.timers import KILL, Timer
from radrm.core.transitions import Trigger
from radrm.core.words import ActionKind, StopReason


def stop(
    state: State, job: Job, attempt: Attempt, reason: StopReason, why: str | None = None
) -> None:
    """Stop an attempt. `why` becomes the job's reason.

    Stop reasons are ordered: CANCELLED > TIMEOUT > LOST > PREEMPTED. The reason of a stop
    under way may only move left, and its deadline stays. So no cancel is forgotten. The record
    keeps the earlier stop: it stands again if the later one came after the end.
    """
    now, earlier = state.step.now, attempt.stop
    if earlier is not None and not reason.overrides(earlier.reason):
        return
    if why is not None:
        job = state.put_job(replace(job, reason=why))
    if reason is not StopReason.PREEMPTED:
        drop_target(state, job)  # it does not go on there
        job = state.jobs[job.id]
    deadline = now.boot_s + state.settings.grace_s if earlier is None else earlier.kill_boot_s
    state.put_attempt(replace(attempt, stop=Stop(reason, now, deadline, why, earlier)))
    if earlier is not None:
        return
    state.move(job, Trigger.STOP)
    state.wake(Timer(deadline, KILL, job.id, attempt.serial))
    state.act(Terminate(job_id=job.id, serial=attempt.serial))


def wake_for_kill(state: State, attempt: Attempt) -> None:
    """Set the timer of the next KILL. A deadline of an earlier boot means nothing."""
    if attempt.stop is not None:
        latest_s = state.step.now.boot_s + state.settings.grace_s
        kill_s = min(attempt.stop.kill_boot_s, latest_s)
        if kill_s != attempt.stop.kill_boot_s:
            state.put_attempt(replace(attempt, stop=replace(attempt.stop, kill_boot_s=kill_s)))
        state.wake(Timer(kill_s, KILL, attempt.job_id, attempt.serial))


def at_kill(state: State, job: Job, attempt: Attempt) -> None:
    """Send KILL if it is due, and again after each grace time until the attempt has ended."""
    now_s, stop = state.step.now.boot_s, attempt.stop
    if stop is None or now_s < stop.kill_boot_s:
        return
    again = now_s + state.settings.grace_s
    attempt = state.put_attempt(replace(attempt, stop=replace(stop, kill_boot_s=again)))
    if attempt.asked(ActionKind.KILL) is None:
        expect(state, job, attempt, ActionKind.KILL)
    state.wake(Timer(again, KILL, attempt.job_id, attempt.serial))
    state.act(Kill(job_id=attempt.job_id, serial=attempt.serial))
