"""When a job ends: the run time that it has left, its bounds, and their source.

Theory of operation
-------------------
Everybody asks here: who shows an end, who waits for one, who plans with it, and who lets a job
start because it ends in time. Who must be sure takes a bound: the *time limit* (`limit_s`,
`latest_end_s`), which nobody exceeds, or where a prediction will do, its *upper bound*.

The sources of what is expected, best first:

    progress    what the live attempt has reported: the part left, at the speed since its start,
                or since the first report at its present size
    profile     the measured run time on this kind and number of GPUs, times the part left
    an estimate of the duration (declared, from history, ...), times the part left
    its profile on other kinds  so fast it may be on this one, too; nothing bounds it
    time limit  an upper bound only

The part left is 1 less the work done, as far as that survives: a live attempt began with
`Attempt.work_begun`, a waiting job goes on from `Job.saved`. An unknown part counts as not done.
Seconds by progress are those beside the attempt's neighbours so far. All others are those of a job
alone, over its speed.

A running job that has lasted longer than its estimate is expected to last `OVERRUN` of its past
again: nothing better is known.
"""

from __future__ import annotations

from math import inf
from statistics import fmean

from msgspec import Struct

from radrm.core.records import Attempt, Instant, Job, Progress
from radrm.core.words import Quantity

OVERRUN = 0.1
LEAST_PROGRESS = 0.01
"""The part of its work that an attempt must have done before its progress counts."""
PROGRESS_MARGIN = 1.25
"""The remaining time by progress or profile may be this many times longer. An assumption."""
PROGRESS = "progress"
PROFILE = "profile"
ASSUMED = "assumed"
TIME_LIMIT = "time limit"


class Remaining(Struct, frozen=True):
    """Seconds that a job has left to run: expected, at most, and the source of both.

    `upper_s` is infinity if nothing bounds it. From the time limit alone both are the bound.
    `limit_s`: what the time limit leaves; infinity without one. `exceeded`: the job has run for
    longer than its source says at most. `limited`: the source says more, but the time limit ends it
    then.
    """

    value_s: float
    upper_s: float
    source: str
    exceeded: bool = False
    limited: bool = False
    limit_s: float = inf


class _Whole(Struct, frozen=True):
    """The run time of all of a job's work alone: expected and at most, in seconds."""

    value_s: float
    upper_s: float
    source: str


def remaining(
    job: Job,
    live: Attempt | None,
    now: Instant,
    *,
    kind: str | None = None,
    gpus: int | None = None,
    speed: float = 1.0,
    unknown_s: float | None = None,
) -> Remaining | None:
    """Return the run time that a waiting or running job has left; None if nothing is known.

    `kind` and `gpus`: the name and the number of the GPUs on which it runs, or would run; None:
    its profile does not count. `speed`: its mean speed (above 0, at most 1) beside its neighbours.
    `unknown_s`: the duration to assume where only the time limit is known, or nothing.
    """
    ran_s, limit_s = _ran_s(live, now), job.limit_s
    limit_s = inf if limit_s is None else max(0.0, limit_s - ran_s)
    found = None if live is None else _by_progress(job, live, now)
    if found is None:
        whole = _whole(job, kind, gpus, unknown_s)
        found = None if whole is None else _by_whole(whole, job, live, ran_s, speed)
    if found is None:
        return None if limit_s == inf else Remaining(limit_s, limit_s, TIME_LIMIT, limit_s=limit_s)
    return _within(limit_s, found)


def _within(limit_s: float, left: Remaining) -> Remaining:
    """Return the run time left of a job that has `limit_s` left of its time limit."""
    value_s, upper_s = min(left.value_s, limit_s), min(left.upper_s, limit_s)
    limited = limit_s < left.value_s
    return Remaining(value_s, upper_s, left.source, left.exceeded, limited, limit_s)


def latest_end_s(job: Job, live: Attempt | None, now: Instant) -> float:
    """Return when a live attempt, or one that starts now, must end, in boot-time seconds.

    It is the time limit, or the KILL of a stop under way; infinity without either. Never past.
    """
    limit_s, stop = job.limit_s, None if live is None else live.stop
    end_s = inf if stop is None else stop.kill_boot_s
    if limit_s is not None:
        began = now if live is None else live.started or live.launched
        end_s = min(end_s, began.boot_s + limit_s)
    return end_s if end_s > now.boot_s else now.boot_s


def length_s(job: Job) -> float:
    """Return for how long a new attempt of a job has its devices at most; infinity if unknown.

    That is the job's time limit; without one, the upper bound of its predicted run time.
    """
    left = remaining(job, None, job.submitted)
    if left is None:
        return inf
    return left.limit_s if left.limit_s < inf else left.upper_s


def remaining_on(
    job: Job,
    live: Attempt | None,
    now: Instant,
    there: tuple[str, int],
    here: tuple[str, int] | None = None,
) -> Remaining | None:
    """Return the run time left if a job went on with the GPUs `there`; None if nothing is known.

    `there` and `here`, its present GPUs, are a kind and a number. Saving and starting again are
    not counted. A running job without a profile of `there` is as fast there as here.
    """
    if live is None:
        return remaining(job, None, now, kind=there[0], gpus=there[1])
    kind, gpus = here if here is not None else (None, None)
    left = remaining(job, live, now, kind=kind, gpus=gpus)
    whole_s = profiled_s(job, *there)
    if there == here or whole_s is None:
        return left
    part = work_left(job, live, now, here)
    if part is None:
        return left
    left_s = part * whole_s
    limit_s = inf if job.limit_s is None else max(0.0, job.limit_s - _ran_s(live, now))
    return _within(limit_s, Remaining(left_s, left_s * PROGRESS_MARGIN, PROFILE))


def work_left(
    job: Job, live: Attempt | None, now: Instant, here: tuple[str, int] | None = None
) -> float | None:
    """Return the part (0..1) of its work that a job has left; None if it is unknown.

    A running job's is by its progress, else by its duration on its GPUs (`here`: kind, number).
    """
    part = _part(job, live)
    if live is None:
        return part
    left, pace_s = _by_progress(job, live, now), _pace_s(job, live)
    if left is not None and pace_s is not None:
        return min(1.0, left.value_s / pace_s)
    kind, gpus = here if here is not None else (None, None)
    whole = _whole(job, kind, gpus, None)
    if whole is None or whole.value_s <= 0:
        return None
    return min(part, _by_whole(whole, job, live, _ran_s(live, now), 1.0).value_s / whole.value_s)


def profiled_s(job: Job, kind: str, gpus: int) -> float | None:
    """Return the measured run time of all of a job's work on such GPUs; None if unknown."""
    for each in job.profile:
        if each.kind == kind and each.gpus == gpus:
            return each.duration_s
    return None


def _ran_s(live: Attempt | None, now: Instant) -> float:
    if live is None:
        return 0.0
    return max(0.0, now.since(live.started or live.launched) or 0.0)


def _part(job: Job, live: Attempt | None) -> float:
    """Return the part of its work that an attempt began with, or that a waiting job has left."""
    if live is not None:
        done = live.work_begun
    else:
        done = job.saved.work_done if job.saved is not None else None
    return 1.0 - min(1.0, max(0.0, done or 0.0))


def _pace_s(job: Job, live: Attempt) -> float | None:
    """Return the seconds in which a live attempt does all work of its job, by its progress."""
    if live.sized is not None:  # its speed before says nothing of the present size
        return _pace_since(job.progress, live.sized.work_done, live.sized.measured)
    return _pace_since(job.progress, live.work_begun, live.started)


def _pace_since(
    progress: Progress | None, begun: float | None, since: Instant | None
) -> float | None:
    """Return the seconds of all work at the speed since some moment, with `begun` done by then."""
    if progress is None or progress.work_done is None or begun is None or since is None:
        return None
    done, took_s = progress.work_done - begun, progress.measured.since(since)
    if done < LEAST_PROGRESS or took_s is None or took_s <= 0:
        return None
    return took_s / done


def _by_progress(job: Job, live: Attempt, now: Instant) -> Remaining | None:
    progress, pace_s = job.progress, _pace_s(job, live)
    age_s = None if progress is None else now.since(progress.measured)
    if progress is None or progress.work_done is None or pace_s is None or age_s is None:
        return None
    left_s = pace_s * (1.0 - min(1.0, progress.work_done))
    most_s = left_s * PROGRESS_MARGIN - age_s
    if most_s < 0 and progress.work_done < 1:
        return None  # it has not reported for longer than all of it should take
    return Remaining(max(0.0, left_s - age_s), max(0.0, most_s), PROGRESS)


def _whole(job: Job, kind: str | None, gpus: int | None, unknown_s: float | None) -> _Whole | None:
    if kind is not None and gpus is not None:
        found_s = profiled_s(job, kind, gpus)
        if found_s is not None:
            return _Whole(found_s, found_s * PROGRESS_MARGIN, PROFILE)
    duration = job.estimate(Quantity.DURATION)
    if duration is not None:
        return _Whole(duration.value, duration.upper, duration.source)
    others = [each.duration_s for each in job.profile if each.gpus == gpus]
    if others:
        return _Whole(fmean(others), inf, ASSUMED)
    return None if unknown_s is None else _Whole(unknown_s, inf, ASSUMED)


def _by_whole(
    whole: _Whole, job: Job, live: Attempt | None, ran_s: float, speed: float
) -> Remaining:
    part = _part(job, live)
    left_s = whole.value_s * part / speed - ran_s
    if left_s < 0:
        left_s = OVERRUN * ran_s
    most_s = whole.upper_s * part / speed - ran_s
    return Remaining(left_s, max(left_s, most_s), whole.source, exceeded=most_s < 0)
