"""Times that a job's user has set: its limit, its silence, its beginning; and warnings about them.

The time limit is for a job's run: attempts that continue an earlier one's work have what that has
left.

Theory of operation: silence (`--silent-limit`). The host says since when the logs stand still,
again and again while they do (`events.SilenceReported`). Only what it says counts: if nobody can
look, the job runs on. A report of progress is no silence either. Its user is warned first: a fifth
of the limit before its end, or as long as the signal before a limit (`--signal`), which is sent
then, too. A later look than the end of the limit warns, and the next ones stop.

What a restart sees: the warnings of the attempt. Reports that a job sent while no daemon ran are
lost, so a job that reports counts as silent from the restart on.

Theory of operation: `--begin`. The moment is a date, so the wall clock decides. Until then the job
is outside the queue (`Job.awaits_begin`), blocks nobody and keeps its order key. A timer, which
counts time since boot, only asks for a look: a clock that was set back meanwhile sets another one.
Each step compares the two clocks (`follow_clock`), for a clock that was set forward.

What a restart sees: the flag in the job's record. `wake_for_begin` sets the timer again.
"""

from __future__ import annotations

from radrm.core.actions import SendSignal
from radrm.core.decision import Warned
from radrm.core.lifecycle.asking import stop
from radrm.core.records import CLOCK_SET_S, Attempt, Instant, Job, JobSpec, JobWarning, Progress
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, BEGIN, TIME_LIMIT, Timer
from radrm.core.units import show_seconds
from radrm.core.words import StopReason
from radrm.structs import replace


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

    An edit may have moved the limit since the timer was set, so the record decides. The limit of a
    job of Slurm's is Slurm's, where an administrator may have changed it: Slurm ends that job.
    """
    limit, signal = job.limit_s, job.spec.signal
    if limit is None or attempt.started is None:
        return
    end = attempt.started.boot_s + limit
    if state.step.now.boot_s >= end:
        if job.outer is None:
            stop(state, job, attempt, StopReason.TIMEOUT)
    elif (
        signal is not None
        and attempt.stop is None
        and not attempt.signalled
        and state.step.now.boot_s >= end - signal.lead_s
    ):
        state.put_attempt(replace(attempt, signalled=True))
        state.act(SendSignal(job_id=job.id, serial=attempt.serial, number=signal.number))


def warn(
    state: State,
    attempt: Attempt,
    kind: str,
    text: str,
    does: str = "",
    in_s: float | None = None,
    tell: bool = True,
    past: str = "",
) -> Attempt:
    """Replace the warning of a kind, and tell the user; "" as `text` takes it back silently.

    `does` follows `in_s` seconds from now; "" if nothing does. Without `tell` the record changes
    alone, and keeps its time. `past`: what is said once the job has ended; "" for the same.
    """
    others = tuple(each for each in attempt.warnings if each.kind != kind)
    if not text:
        return attempt if others == attempt.warnings else _put(state, attempt, others)
    ends = f"; {does} in {show_seconds(in_s)}" if does and in_s is not None else ""
    if tell:
        state.step.warned.append(Warned(attempt.job_id, kind, text + ends))
    before = None if tell else attempt.warning(kind)
    at = before.at if before else state.step.now
    mine = JobWarning(kind, text, at, does, in_s, past or text)
    return _put(state, attempt, (*others, mine))


def _put(state: State, attempt: Attempt, warnings: tuple[JobWarning, ...]) -> Attempt:
    return state.put_attempt(replace(attempt, warnings=warnings))


KIND = "silent"
"""The kind of its warnings."""
_LEAD = 0.2
"""The part of the limit that is left at the warning."""


def silent(state: State, job: Job, attempt: Attempt, since: Instant) -> None:
    """Warn of or stop an attempt whose logs stand still since then, if that is due."""
    now, limit_s = state.step.now, job.spec.silent_limit_s
    if limit_s is None or attempt.started is None or attempt.stop is not None:
        return
    known = [since, attempt.started]
    if job.progress is not None:
        known.append(job.progress.at)
    silent_s = min((now.since(each) or 0.0) for each in known)
    if attempt.reported:
        silent_s = min(silent_s, now.boot_s - state.listens_s)
    signal, lead_s = job.spec.signal, limit_s - (warned_after_s(job.spec) or 0.0)
    warning = attempt.warning(KIND)
    if silent_s < limit_s - lead_s:
        end_silence(state, attempt)
    elif warning is None:
        text = f"it has printed nothing for {show_seconds(silent_s)}"
        limit = f" (limit {show_seconds(limit_s)})"
        left_s = max(limit_s - silent_s, lead_s / 2)
        attempt = warn(state, attempt, KIND, text + limit, "it is stopped", left_s)
        if signal is not None and not attempt.signalled:
            state.put_attempt(replace(attempt, signalled=True))
            state.act(SendSignal(job_id=job.id, serial=attempt.serial, number=signal.number))
    elif silent_s >= limit_s and (now.since(warning.at) or 0.0) >= (warning.in_s or 0.0):
        why = f"silent for {show_seconds(silent_s)} (limit {show_seconds(limit_s)})"
        stop(state, job, attempt, StopReason.TIMEOUT, why)


def warned_after_s(spec: JobSpec) -> float | None:
    """Return for how long a job is silent when its user is warned; None without a limit."""
    limit_s, signal = spec.silent_limit_s, spec.signal
    if limit_s is None:
        return None
    lead_s = max(_LEAD * limit_s, signal.lead_s if signal is not None else 0.0)
    return max(0.0, limit_s - lead_s)


def heard(state: State, job: Job, progress: Progress) -> None:
    """Note a live job's report of progress."""
    state.put_progress(job, progress)
    end_silence(state, state.attempts[job.id])


def end_silence(state: State, attempt: Attempt) -> None:
    """Take a warning back: the job has been heard."""
    if attempt.warning(KIND) is not None:
        warn(state, attempt, KIND, "")


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
    """Let a job into the queue once its begin time has passed. Returns whether it has passed."""
    if not job.awaits_begin or not job.state.waiting:
        return False
    now = with_begin(state, job)
    if now.awaits_begin:
        return False
    state.put_job(now)
    return True


def follow_clock(state: State) -> None:
    """Look at all dates again if the date has been set, or has run away, since the last look.

    Reservations for users look for themselves (`reservations.py`).
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
