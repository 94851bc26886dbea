"""A job leaves its attempt: to its end, or back to its queue.

A pause is in the job's record, so a restart keeps it. The job is outside the queue meanwhile and
keeps its order key. Without a pause, a job that fails or is lost at once would start again
without end in one moment.
"""

from __future__ import annotations

from radrm.core.lifecycle.occupancy import drop_target
from radrm.core.records import Attempt, Job, Pause
from radrm.core.state.pauses import growing_s
from radrm.core.state.state import State
from radrm.core.state.timers import PAUSE_OVER, Timer
from radrm.core.transitions import Trigger
from radrm.core.words import Collocation, JobState, Outcome, Queue
from radrm.structs import replace


def finish(
    state: State, job: Job, trigger: Trigger, attempt: Attempt, reason: str | None = None
) -> None:
    """End a job with its attempt; `reason` replaces the attempt's reason."""
    drop_target(state, job)
    state.move(
        state.jobs[job.id],
        trigger,
        outcome=attempt.outcome or (Outcome(attempt.stop.reason.value) if attempt.stop else None),
        exit_code=attempt.exit_code,
        reason=reason or attempt.reason,
        ended=attempt.ended or state.step.now,
    )


def fail_waiting(state: State, job: Job, reason: str) -> None:
    """Fail a waiting job that can never run here."""
    drop_target(state, job)
    job = state.jobs[job.id]
    state.move(job, Trigger.FAIL, reason=reason, ended=state.step.now, pause=None)


def cancel_waiting(state: State, job: Job, reason: str) -> None:
    drop_target(state, job)
    state.move(
        state.jobs[job.id],
        Trigger.CANCEL,
        outcome=Outcome.CANCELLED,
        reason=reason,
        ended=state.step.now,
        pause=None,
    )


def return_to_queue(state: State, job: Job, **changes: object) -> None:
    """Return a job to the queue that it came from."""
    recovering = job.queue is Queue.RECOVERY
    state.move(job, Trigger.RECOVER if recovering else Trigger.RETURN, **changes)


def refuse_retry(job: Job, attempt: Attempt) -> str | None:
    """Return why a failed attempt is not retried, though retries are left; None if it is.

    Exit codes say nothing of a lost one: it has none, or that of its end by the daemon.
    """
    code, wanted = attempt.exit_code, job.spec.retry_on
    if (
        wanted is None
        or attempt.outcome is not Outcome.FAILED
        or any(code is not None and a <= code <= b for a, b in wanted)
    ):
        return None
    codes = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in wanted)
    return f"not retried: --retry-on has the exit codes {codes}"


def retry(state: State, job: Job, attempt: Attempt) -> None:
    """Return a job to its queue after a failure; each pause is longer than the last."""
    number = job.retries_used + 1
    length_s = growing_s(state.settings.retry_s, number, state.settings.retry_most_s)
    reason = f"before retry {number} of {job.spec.retries} ({attempt.reason})"
    return_to_queue(
        state, job, retries_used=number, setbacks=0, pause=pause(state, job, length_s, reason)
    )


def excused_retry(state: State, job: Job, excuse: str, fault: bool) -> bool:
    """Return a job to its queue after a failure that may pass; False after the last such run.

    It uses up none of its retries. Clients of a server that had a fault run again together, so the
    one that causes faults could end the others each time: the last run is on a GPU of its own.
    """
    number, most = job.passing_used + 1, state.settings.passing_retries
    if number > most:
        return False
    length_s = growing_s(state.settings.retry_s, number, state.settings.retry_most_s)
    changes: dict[str, object] = {"passing_used": number, "setbacks": 0}
    where = ""
    if fault and number + 1 > most and job.spec.collocation is not Collocation.MPS:
        changes["own_device"], where = True, " on a GPU of its own"
    reason = f"before it runs again{where}, {number} of {most:g} times: {excuse}"
    return_to_queue(state, job, **changes, pause=pause(state, job, length_s, reason))
    return True


def setback(state: State, job: Job, attempt: Attempt, why: str) -> dict[str, object]:
    """Return the changes of a job's record after a lost, void or preempted attempt.

    The first such attempt causes no pause, and neither does one that was live for longer than
    the pause would be: it cannot repeat quickly. One that has left for its user's request, as for
    a move, does not count.
    """
    asked = attempt.requested
    if attempt.outcome is Outcome.PREEMPTED and asked is not None and asked.user is not None:
        return {}
    times = job.setbacks + 1
    first_s, most_s = state.settings.retry_s, state.settings.retry_most_s
    length_s = growing_s(first_s, max(1, times - 1), most_s)
    if state.step.now.boot_s - attempt.launched.boot_s >= length_s:
        return {"setbacks": 0}
    if times == 1:
        return {"setbacks": 1}
    reason = f"before its next start: {times} attempts in a row came to nothing ({why})"
    return {"setbacks": times, "pause": pause(state, job, length_s, reason)}


def pause(state: State, job: Job, length_s: float, reason: str) -> Pause:
    """Return a pause of this length from now on, and set the timer that ends it."""
    now = state.step.now
    until_s = now.boot_s + length_s
    state.wake(Timer(until_s, PAUSE_OVER, job.id))
    return Pause(since=now, until_boot_s=until_s, reason=reason)


def end_pause(state: State, job: Job) -> bool:
    """Return a job to the queue if its pause is over. Returns whether it was."""
    if job.pause is None or not job.state.waiting or job.pause.left_s(state.step.now) > 0:
        return False
    drop_target(state, job)  # it could not go on there in time
    state.put_job(replace(state.jobs[job.id], pause=None))
    return True


def begun_anew(job: Job) -> Job:
    """Return a job's record without its saved work: its next attempt begins at the start."""
    return replace(job, progress=None, saved=None, saved_at=None, used_s=0.0, anew=job.anew + 1)


def has_no_work_left(job: Job) -> bool:
    """Return whether a job has completed, and has not reported that a part of its work is left.

    What it has saved is the end of its work, so there it could only end again.
    """
    known = [p.work_done for p in (job.progress, job.saved) if p is not None]
    done = max((each for each in known if each is not None), default=1.0)
    return job.state is JobState.COMPLETED and done >= 1.0


def run_again(state: State, job: Job, from_start: bool = False) -> None:
    """Return an ended job to the queue for another run. It goes on from what it has saved.

    Unless it has completed with no work left, or `from_start`. Its proven need
    (`memory_floor_mib`) stays.
    """
    if from_start or has_no_work_left(job):
        job = begun_anew(job)
    array = None if job.array is None else replace(job.array, fails=0)
    state.move(
        state.behind_all(replace(job, used_s=0.0, array=array)),
        Trigger.REQUEUE,
        run=job.run + 1,
        rerun=state.step.now,
        oom_count=0,
        retries_used=0,
        setbacks=0,
        passing_used=0,
        moves=0,
        pause=None,
        own_device=False,
        by_policy=False,
        ask_mib=None,
        victim_count=0,
        died_on=(),
        use_last=(),
        outcome=None,
        exit_code=None,
        reason=None,
        started=None,
        ended=None,
    )
