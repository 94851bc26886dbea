"""A job whose log and progress do not change for as long as its `--silent-limit`.

Theory of operation. The host says since when the logs stand still, again and again while they do
(`events.SilenceReported`). Only what it says counts: if nobody can look, the job runs on. A report
of progress is no silence either. Its user is warned first: a fifth of the limit before its end, or
as long as the signal before a limit (`--signal`), which is sent then, too. A later look than the
end of the limit warns, and the next ones stop.

What a restart sees: the warnings of the attempt. Reports that a job sent while no daemon ran are
lost, so a job that reports counts as silent from the restart on.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.actions import SendSignal
from radrm.core.lifecycle.stops import stop
from radrm.core.lifecycle.timing.warnings import warn
from radrm.core.records import Attempt, Instant, Job, JobSpec, Progress
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.core.words import StopReason

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
    if attempt.warnings:
        warn(state, attempt, KIND, "")
