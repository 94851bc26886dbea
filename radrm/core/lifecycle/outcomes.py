"""How an attempt ended, and why, from the exits of its processes and its stop."""

from __future__ import annotations

from dataclasses import replace

from radrm.core.events import AttemptEnded
from radrm.core.records import (
    DECLARED,
    MEASURED,
    Attempt,
    Estimate,
    Exit,
    Instant,
    Job,
    PlannerRequest,
    Stop,
)
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import Outcome, Quantity, StopReason

MEASURED_MARGIN = 1.2
"""The upper bound of a job's SM activity that its own first minutes show: so many times the mean.
An assumption; estimates from past runs have learned bounds."""


def outcome_of(attempt: Attempt, event: AttemptEnded) -> Outcome:
    """Return the outcome: the stop's reason, whatever the exits; without a stop, the exits."""
    if attempt.stop is not None:
        return Outcome(attempt.stop.reason.value)
    if event.lost is not None:
        return Outcome.LOST
    if event.failure is not None:
        return Outcome.FAILED
    if event.never_started is None and event.exits and all(e.ok for e in event.exits):
        # Also with evidence of out-of-memory: the program handled it.
        return Outcome.COMPLETED
    return Outcome.OOM if event.oom is not None else Outcome.FAILED


def with_measured(job: Job, attempt: Attempt) -> Job:
    """Return the job with the SM activity that an unfinished attempt of it showed alone.

    It comes before all predictions but a declared one. The same job if nothing was shown, or if
    the attempt completed: then the record keeps what was predicted.
    """
    best, smact = job.estimate(Quantity.SMACT), attempt.alone_smact
    declared = best is not None and best.source == DECLARED
    if attempt.outcome is Outcome.COMPLETED or smact is None or declared:
        return job
    upper = max(smact, min(1.0, MEASURED_MARGIN * smact))
    shown = Estimate(Quantity.SMACT, smact, upper, MEASURED)
    others = tuple(e for e in job.estimates if (e.quantity, e.source) != (shown.quantity, MEASURED))
    return replace(job, estimates=(shown, *others))


def exit_code_of(exits: tuple[Exit, ...]) -> int | None:
    """Return the highest of the tasks' exit codes, as a shell reports them; None if unknown."""
    codes = [e.shell_code for e in exits]
    return max((c for c in codes if c is not None), default=None)


def standing(stop: Stop | None, event: AttemptEnded, end: Instant) -> Stop | None:
    """Return the stop that counts for an attempt that ended at `end`; None if none does."""
    while stop is not None and _came_too_late(stop, event, end):
        stop = stop.earlier
    return stop


def _came_too_late(stop: Stop, event: AttemptEnded, end: Instant) -> bool:
    """Return whether all processes had ended before the stop was asked for.

    Such a stop does not count, except a user's cancel: otherwise the job could run again.
    """
    if event.happened is None or stop.reason is StopReason.CANCELLED:
        return False
    late_s = stop.asked.since(end)
    return late_s is not None and late_s > 0


def why_stopped(job: Job, stop: Stop | None, requested: PlannerRequest | None = None) -> str | None:
    """Return the reason of a stop, for users; None without a stop.

    `requested`: the last change that a planner asked for, which a preemption follows from.
    """
    if stop is None:
        return None
    if stop.reason is StopReason.TIMEOUT:
        return f"time limit ({show_seconds(job.spec.time_limit_s)}) reached"
    if stop.reason is StopReason.PREEMPTED and requested is not None:
        return job.reason or f"{stop.reason.value}: {requested}"
    return job.reason or stop.reason.value


def why_ended(outcome: Outcome, event: AttemptEnded, code: int | None) -> str | None:
    """Return why an attempt without a stop ended; None if it completed."""
    if outcome is Outcome.COMPLETED:
        return None
    if event.never_started is not None:
        return event.never_started
    if event.lost is not None:
        return event.lost
    if event.failure is not None:
        return event.failure
    if event.oom is not None and outcome is Outcome.OOM:
        wanted, blame = event.oom.requested_mib, event.oom.blame
        request = f" when it asked for {show_mib(wanted)} more" if wanted else ""
        why = f"; {blame.why}" if blame is not None and blame.why is not None else ""
        return f"out of GPU memory{request}{why}"
    signals = [e.signal for e in event.exits if e.signal is not None]
    return f"killed by signal {signals[0]}" if signals else f"exit code {code}"
