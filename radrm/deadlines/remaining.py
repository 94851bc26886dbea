"""The run time that a job has left.

Theory of operation
-------------------
The sources, best first:

    progress    what the live attempt has reported: the part left, at the speed since its start
    an estimate of the duration (declared, from history, ...), times the part left
    time limit  an upper bound only

The part left is 1 less the work done, as far as that survives: a live attempt began with
`Attempt.work_begun`, a waiting job goes on from `Job.saved`. Seconds by progress are those of the
attempt's present neighbours; those of an estimate are alone on the devices.

A running job that has lasted longer than its estimate is expected to last `OVERRUN` of its past
again: nothing better is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from radrm.core.records import Attempt, Instant, Job
from radrm.core.words import Quantity

OVERRUN = 0.1
LEAST_PROGRESS = 0.01
"""The part of its work that an attempt must have done before its progress counts."""
PROGRESS_MARGIN = 1.25
"""The remaining time by a job's progress may be this many times longer. An assumption."""
PROGRESS = "progress"
TIME_LIMIT = "time limit"


@dataclass(frozen=True, slots=True)
class Remaining:
    """Seconds that a job has left to run: expected, at most, and the source of both.

    `upper_s` is infinity if nothing bounds it. From the time limit alone both are the bound.
    """

    value_s: float
    upper_s: float
    source: str


def remaining(job: Job, live: Attempt | None, now: Instant) -> Remaining | None:
    """Return the run time that a waiting or running job has left; None if nothing is known."""
    ran_s = 0.0
    if live is not None:
        began = live.started or live.launched
        ran_s = max(0.0, now.since(began) or 0.0)
    limit_s = inf if job.limit_s is None else max(0.0, job.limit_s - ran_s)
    found = None if live is None else _by_progress(job, live, now)
    found = found or _by_estimate(job, live, ran_s)
    if found is None:
        return None if limit_s == inf else Remaining(limit_s, limit_s, TIME_LIMIT)
    return Remaining(min(found.value_s, limit_s), min(found.upper_s, limit_s), found.source)


def _by_progress(job: Job, live: Attempt, now: Instant) -> Remaining | None:
    progress, begun = job.progress, live.work_begun
    if progress is None or progress.work_done is None or begun is None or live.started is None:
        return None
    done, took_s = progress.work_done - begun, progress.at.since(live.started)
    age_s = now.since(progress.at)
    if done < LEAST_PROGRESS or took_s is None or age_s is None or took_s <= 0:
        return None
    left_s = took_s * (1.0 - min(1.0, progress.work_done)) / done
    most_s = left_s * PROGRESS_MARGIN - age_s
    if most_s < 0 and progress.work_done < 1:
        return None  # it has not reported for longer than all of it should take
    return Remaining(max(0.0, left_s - age_s), max(0.0, most_s), PROGRESS)


def _by_estimate(job: Job, live: Attempt | None, ran_s: float) -> Remaining | None:
    duration = job.estimate(Quantity.DURATION)
    if duration is None:
        return None
    if live is not None:
        done = live.work_begun
    else:
        done = job.saved.work_done if job.saved is not None else 0.0
    part = 1.0 - min(1.0, max(0.0, done or 0.0))
    left_s = duration.value * part - ran_s
    if left_s < 0 and live is not None:
        left_s = OVERRUN * ran_s
    upper_s = max(left_s, duration.upper * part - ran_s)
    return Remaining(max(0.0, left_s), max(0.0, upper_s), duration.source)
