"""When a running job is expected to end: by its progress, else by its predicted duration."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Attempt, Instant, Job
from radrm.core.snapshot import Snapshot
from radrm.core.words import Collocation, Quantity
from radrm.estimators.learning.contention import mean_speed, speed_beside
from radrm.interference.model import joint_speed

LEAST_PROGRESS = 0.01
"""The fraction of its work that an attempt must have done before its progress counts."""
PROGRESS_MARGIN = 1.25
"""The remaining time by a job's progress may be this many times longer. An assumption."""
_UNKNOWN = 0.5
"""The SM activity of a job of which nothing is known."""
_SLOWEST = 0.01


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """Epoch seconds: `at`, and the latest."""

    at: float
    latest: float


def expected_end(snapshot: Snapshot, job: Job, live: Attempt, now: Instant) -> ExpectedEnd | None:
    """Return when a live job is expected to end, at its time limit at the latest.

    None if neither its progress nor its duration is known, or if it runs for longer than the
    upper bound of its duration.
    """
    ran_s = now.since(live.started) if live.started is not None else None
    if live.started is None or ran_s is None:
        return None
    found = _by_progress(job, live, live.started, now)
    left = found if found is not None else _by_duration(snapshot, job, live, ran_s, now)
    if left is None:
        return None
    limit_s = job.limit_s
    most_s = float("inf") if limit_s is None else max(0.0, limit_s - ran_s)
    return ExpectedEnd(*(now.wall_s + min(max(0.0, each), most_s) for each in left))


def _by_progress(
    job: Job, live: Attempt, started: Instant, now: Instant
) -> tuple[float, float] | None:
    """Return the seconds left, and at most left; None without progress in this attempt.

    Its speed is what it has done since it began. A report may be old, as from a job that
    reports once per epoch: the time since then is over.
    """
    progress, begun = job.progress, live.work_begun
    if progress is None or progress.work_done is None or begun is None:
        return None
    done, took_s = progress.work_done - begun, progress.at.since(started)
    age_s = now.since(progress.at)
    if done < LEAST_PROGRESS or took_s is None or age_s is None or took_s <= 0:
        return None
    left_s = took_s * (1.0 - min(1.0, progress.work_done)) / done
    most_s = left_s * PROGRESS_MARGIN - age_s
    # A job that has done all its work may still save it.
    return (left_s - age_s, most_s) if most_s >= 0 or progress.work_done >= 1 else None


def _by_duration(
    snapshot: Snapshot, job: Job, live: Attempt, ran_s: float, now: Instant
) -> tuple[float, float] | None:
    duration, begun = job.estimate(Quantity.DURATION), live.work_begun
    if duration is None or begun is None:
        return None
    to_do = 1.0 - min(1.0, begun)
    used = snapshot.used_now(live)
    demand = used.alone_smact if used.alone_smact is not None else job.predicted(Quantity.SMACT)
    demand = _UNKNOWN if demand is None else demand
    done_s = ran_s * mean_speed(used, demand, ran_s)
    if done_s > duration.upper * to_do:
        return None
    speed = _speed_now(snapshot, live, demand)
    left_s, most_s = (all_s * to_do - done_s for all_s in (duration.value, duration.upper))
    return left_s / speed, most_s / speed


def _speed_now(snapshot: Snapshot, live: Attempt, demand: float) -> float:
    """Return the speed of an attempt beside the jobs that are on its devices now."""
    mps = live.placement.collocation is Collocation.MPS
    each = []
    for uuid in live.placement.devices:
        device = snapshot.device(uuid)
        others = []
        for job_id, occupant in (device.occupants if device is not None else {}).items():
            other = snapshot.job(job_id)
            if job_id != live.job_id and other is not None:
                shown = occupant.usage.alone_smact
                others.append(other.predicted(Quantity.SMACT) if shown is None else shown)
        each.append(speed_beside(demand, others, mps))
    return max(_SLOWEST, joint_speed(each)) if each else 1.0
