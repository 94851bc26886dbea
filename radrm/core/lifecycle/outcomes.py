"""How an attempt ended, and why, from the exits of its processes and its stop."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from radrm.core.events import AttemptEnded
from radrm.core.records import (
    DECLARED,
    MEASURED,
    Attempt,
    Chip,
    Estimate,
    Exit,
    Instant,
    Job,
    PlannerRequest,
    Progress,
    Stop,
    Task,
)
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import ActionKind, CheckpointKind, Outcome, Quantity, StopReason
from radrm.structs import replace

MEASURED_MARGIN = 1.2
"""The upper bound of a job's SM activity that its own first minutes show: so many times the mean.
An assumption; estimates from past runs have learned bounds."""
FASTER = 1.25
"""A job may work so many times as fast after its last report as before. An assumption."""
REACH = 4.0
"""A report tells the speed for so many times the time that its attempt had run. An assumption."""
REQUEUE, FROM_START = "a requeue", "a requeue from the start"
"""What a user's requeue is called as a request of an attempt."""
_BY_TERM = 128 + 15


def outcome_of(
    job: Job, attempt: Attempt, event: AttemptEnded, end: Instant, patience_s: float
) -> Outcome:
    """Return the outcome: the stop's reason, whatever the exits; without a stop, the exits.

    An attempt that ended because it was asked to save its work counts as preempted
    (`has_left`). `patience_s`: how long a request to save lasts.
    """
    if attempt.stop is not None:
        return Outcome(attempt.stop.reason.value)
    if event.failure is not None:
        return Outcome.FAILED
    if has_left(job, attempt, event, end, patience_s):
        return Outcome.PREEMPTED
    if event.lost is not None:
        return Outcome.LOST
    if event.never_started is None and event.exits and all(e.ok for e in event.exits):
        # Also with evidence of out-of-memory: the program handled it.
        return Outcome.COMPLETED
    return Outcome.OOM if event.oom is not None else Outcome.FAILED


# ------------------------------------------------------------------ requests to save


class _How(Enum):
    """How an asked attempt ended: with 0, by the signal that asks, or in any other way."""

    OK = auto()
    ASKED = auto()
    ELSE = auto()


class _Known(Enum):
    """What is known of an attempt at its end, besides how it ended."""

    IN_TIME = auto()
    """It ended while the request to save lasted."""
    SAVED = auto()
    """It has stated a save since it was asked: in its `saved.json`, or by a report."""
    UNANSWERED = auto()
    """It ended before its save was known, and a stated save or a newer file shows up only now."""
    WORK_LEFT = auto()
    """It was too slow to have done all its work."""


_LEFT: dict[tuple[CheckpointKind, _How], tuple[set[_Known], ...]] = {
    (CheckpointKind.EXIT, _How.OK): (set(),),
    (CheckpointKind.EXIT, _How.ASKED): (set(),),
    # The save counts, not the exit: `torchrun` ends with 1 when it is asked to end, a library may
    # crash while it is unloaded, and a runner may die after the save.
    (CheckpointKind.EXIT, _How.ELSE): ({_Known.IN_TIME, _Known.SAVED},),
    (CheckpointKind.SIGNAL, _How.OK): (
        {_Known.IN_TIME, _Known.UNANSWERED},
        {_Known.IN_TIME, _Known.WORK_LEFT},
    ),
    (CheckpointKind.SIGNAL, _How.ASKED): ({_Known.IN_TIME},),  # the request has killed it
}
"""When an attempt that was asked to save has left for that: how the job saves, how the attempt
ended, and what must be known, in one of these ways. Any other has not left; its exit decides."""


def has_left(
    job: Job, attempt: Attempt, event: AttemptEnded, end: Instant, patience_s: float
) -> bool:
    """Return whether an attempt has ended, before its work was done, because it was asked to save.

    The request is a user's or a planner's, maybe of an earlier daemon; `_LEFT` has what follows.
    One that ended with 0 and is known to have done all its work has not left. A newer file is no
    proof for an attempt that failed: it may be half a checkpoint. A user's requeue needs no proof:
    the job is to run again, however it ends meanwhile.
    """
    asked, kind = attempt.checkpoint_asked, job.spec.checkpoint.kind
    if asked is None or event.never_started is not None:
        return False
    how = _how(job, event)
    if how is _How.OK and _work_done(job, event) >= 1.0:
        return False
    if event.lost is not None and job.outer is not None:
        return False  # nobody is left who could run it
    if _is_requeued(attempt, end):
        return True
    known = _known(job, attempt, event, end, patience_s, asked)
    return any(needed <= known for needed in _LEFT.get((kind, how), ()))


def _is_requeued(attempt: Attempt, end: Instant) -> bool:
    """Return whether an attempt ended while its user's requeue had it save."""
    pending, requested = attempt.asked(ActionKind.CHECKPOINT), attempt.requested
    if pending is None or requested is None or requested.kind != REQUEUE:
        return False
    late_s = end.since(pending.asked)
    return late_s is None or late_s >= 0


def _how(job: Job, event: AttemptEnded) -> _How:
    codes = {e.shell_code for e in event.exits}
    if codes == {0}:
        return _How.OK
    # Of a shell, the code of a signal is that of the program that it ran.
    by_request = codes and codes <= {0, 128 + job.spec.checkpoint.number}
    return _How.ASKED if by_request else _How.ELSE


def _known(
    job: Job,
    attempt: Attempt,
    event: AttemptEnded,
    end: Instant,
    patience_s: float,
    asked: Instant,
) -> set[_Known]:
    late_s = end.since(asked)
    known: set[_Known] = set()
    if late_s is None or late_s <= patience_s:
        known.add(_Known.IN_TIME)
    saved = event.saved is not None and not is_newer(asked, event.saved.at)
    saved = saved or has_saved(job, asked)
    if saved:
        known.add(_Known.SAVED)
    if attempt.asked(ActionKind.CHECKPOINT) is not None and (saved or event.saved_since_asked):
        known.add(_Known.UNANSWERED)
    if _had_work_left(job.progress, attempt, end):
        known.add(_Known.WORK_LEFT)
    return known


def _work_done(job: Job, event: AttemptEnded) -> float:
    """Return the most of its work that a job is known to have done; 0 if nothing is known."""
    known = [p.work_done for p in (job.progress, job.saved, event.saved) if p is not None]
    return max((done for done in known if done is not None), default=0.0)


def _had_work_left(progress: Progress | None, attempt: Attempt, end: Instant) -> bool:
    """Return whether a job was too slow to have done all its work after its last report.

    True also if the report came so early in the attempt that it says nothing of the speed.
    """
    if progress is None or progress.work_done is None:
        return False
    took_s = progress.measured.since(attempt.started or attempt.launched)
    after_s = end.since(progress.measured)
    if took_s is None or after_s is None or took_s <= 0 or after_s > REACH * took_s:
        return True
    did = max(0.0, progress.work_done - (attempt.work_begun or 0.0))
    return progress.work_done + did * FASTER * after_s / took_s < 1.0


def has_saved(job: Job, asked: Instant) -> bool:
    """Return whether a job is known to have saved since this moment."""
    return job.saved_at is not None and not is_newer(asked, job.saved_at)


def is_newer(moment: Instant, other: Instant | None) -> bool:
    """Return whether a moment is after another one; True without one."""
    return other is None or moment.is_after(other)


def with_saved(job: Job, attempt: Attempt, event: AttemptEnded, end: Instant) -> Job:
    """Return the job with what its ended attempt has proven to have saved.

    A newer file proves a save only if the attempt ended by itself or by TERM: one that was killed
    may have died in the middle of writing it.
    """
    if event.saved is not None and is_newer(event.saved.at, job.saved_at):
        job = replace(job, saved=event.saved, saved_at=event.saved.at)
    if not event.saved_since_asked:
        return job
    asked = attempt.stop.asked if attempt.stop is not None else attempt.checkpoint_asked
    by_itself = _how(job, event) is not _How.ELSE
    whole = by_itself or all(e.shell_code == _BY_TERM for e in event.exits)
    if asked is None or not whole or has_saved(job, asked):
        return job
    return replace(job, saved_at=end)


def reported(attempt: Attempt, last: Progress | None) -> tuple[Progress, ...]:
    """Return the first and the last progress of an attempt that ends; what is known of them."""
    if last is None or not attempt.reported:
        return attempt.reported
    return (*attempt.reported[:1], last)


def used_s(job: Job, attempt: Attempt) -> float:
    """Return how much of the time limit an ended attempt and earlier ones have used.

    Only attempts count that were preempted, and whose work the next one continues. After a user's
    requeue that is any job that can save, proof or not: else a requeue would get round the limit.
    """
    began, asked = attempt.started, attempt.requested
    if attempt.outcome is not Outcome.PREEMPTED or began is None:
        return job.used_s
    requeued = asked is not None and asked.kind == REQUEUE
    saves = requeued and job.spec.checkpoint.kind is not CheckpointKind.NONE
    if not saves and not has_saved(job, began):
        return job.used_s
    return job.used_s + (attempt.ran_s or 0.0)


def with_measured(
    job: Job, attempt: Attempt, chip_of: Callable[[], Chip | None] = lambda: None
) -> Job:
    """Return the job with the SM activity that an unfinished attempt of it showed alone.

    `chip_of` gives the kind of its GPUs; None: unknown, or of several kinds.
    It comes before all predictions but a declared one. The same job if nothing was shown, or if
    the attempt completed: then the record keeps what was predicted.
    """
    best, smact = job.estimate(Quantity.SMACT), attempt.alone_smact
    declared = best is not None and best.source == DECLARED
    if attempt.outcome is Outcome.COMPLETED or smact is None or declared or attempt.misplaced:
        return job
    upper = max(smact, min(1.0, MEASURED_MARGIN * smact))
    shown = Estimate(Quantity.SMACT, smact, upper, MEASURED, chip=chip_of())
    others = tuple(e for e in job.estimates if (e.quantity, e.source) != (shown.quantity, MEASURED))
    return replace(job, estimates=(shown, *others))


def exit_code_of(exits: tuple[Exit, ...]) -> int | None:
    """Return the highest of the tasks' exit codes, as a shell reports them; None if unknown.

    A task that ended by TERM counts only if no other failed: its launcher has ended it for that.
    """
    codes = [e.shell_code for e in exits if e.shell_code is not None]
    return max((c for c in codes if c not in (0, _BY_TERM)), default=max(codes, default=None))


def standing(stop: Stop | None, event: AttemptEnded, end: Instant) -> Stop | None:
    """Return the stop that counts for an attempt that ended at `end`; None if none does."""
    while stop is not None and _came_too_late(stop, event, end):
        stop = stop.earlier
    return stop


def _came_too_late(stop: Stop, event: AttemptEnded, end: Instant) -> bool:
    """Return whether the job had ended before the stop was asked for: its main process by itself,
    or all its processes.

    Such a stop does not count, except a user's cancel: otherwise the job could run again.
    """
    if event.happened is None or stop.reason is StopReason.CANCELLED:
        return False
    late_s = stop.asked.since(event.itself or end)
    return late_s is not None and late_s > 0


def why_stopped(job: Job, stop: Stop | None, requested: PlannerRequest | None = None) -> str | None:
    """Return the reason of a stop, for users; None without a stop.

    `requested`: the last change that a planner asked for, which a preemption follows from.
    """
    if stop is None:
        return None
    if stop.reason is StopReason.TIMEOUT:
        if stop.why is not None:
            return stop.why
        return f"time limit ({show_seconds(job.spec.time_limit_s)}) reached"
    if stop.reason is StopReason.PREEMPTED and requested is not None:
        return job.reason or f"{stop.reason.value}: {requested}"
    return job.reason or stop.reason.value


def why_ended(
    outcome: Outcome,
    event: AttemptEnded,
    code: int | None,
    tasks: tuple[Task, ...],
    requested: PlannerRequest | None = None,
) -> str | None:
    """Return why an attempt without a stop ended; None if it completed and nothing is odd."""
    if outcome is Outcome.COMPLETED:
        return event.hint
    if outcome is Outcome.PREEMPTED and requested is not None and requested.kind == REQUEUE:
        failed = code not in (None, 0, _BY_TERM)
        ended = _how_ended(event, code, tasks) if failed else event.lost
        return "; ".join(filter(None, (str(requested), ended)))
    if outcome is Outcome.PREEMPTED:
        return "it left when it was asked to save its work"
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
    if event.host_oom is not None:
        return f"a task of role {event.host_oom} ran out of host memory"
    how = (_how_ended(event, code, tasks), event.excuse, event.hint)
    return "; ".join(filter(None, how))


def _how_ended(event: AttemptEnded, code: int | None, tasks: tuple[Task, ...]) -> str:
    """Return how the tasks ended whose exit code counts."""
    failed = [(e, t) for e, t in zip(event.exits, tasks, strict=False) if e.shell_code == code]
    one = failed[0] if len(failed) < len(tasks) and failed else None
    signals = [e.signal for e in event.exits if e.signal is not None and e.shell_code == code]
    if one is None:
        return f"killed by signal {signals[0]}" if signals else f"exit code {code}"
    how = f"was killed by signal {signals[0]}" if signals else f"ended with exit code {code}"
    return f"task {one[1].number} ({one[1].role}) {how}"
