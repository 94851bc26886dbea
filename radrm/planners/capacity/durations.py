"""A job's run time in each configuration.

`Job.profile` has the run times of all its work by kind and number of GPUs; the part of the work
that is done does not count. Without one that fits a kind here, the run time left
(`deadlines.remaining`) counts for the job's own number of GPUs, on every kind alike; and where
nothing is known, a figure of the site.
"""

from __future__ import annotations

from collections.abc import Mapping

from radrm.core.records import Attempt, Instant, Job
from radrm.deadlines.remaining import OVERRUN, remaining

LEAST_LEFT = 0.001
"""The least part of its work that an unfinished job has left."""


def sizes(job: Job) -> frozenset[int] | None:
    """Return the numbers of GPUs that a job can have; None if it has only its own number."""
    with_gpus = [role for role in job.spec.roles if role.needs.gpus]
    if len(job.spec.roles) != 1 or not with_gpus or with_gpus[0].needs.gpus != 1:
        return None
    role = with_gpus[0]
    return frozenset(range(role.count_min, role.count_max + 1, role.step))


def run_times(
    job: Job,
    live: Attempt | None,
    now: Instant,
    kinds: Mapping[int, str],
    here: tuple[int, int] | None,
    unknown_s: float,
) -> dict[tuple[int, int], float]:
    """Return the seconds that a job has left, by kind and number of GPUs.

    `kinds`: the device names of the kinds that it can use. `here`: how a live one runs.
    `unknown_s`: the run time to assume where nothing is known.
    """
    can = sizes(job) or frozenset({job.spec.gpus})
    whole = {
        (kind, each.gpus): each.duration_s
        for kind, name in kinds.items()
        for each in job.profile
        if each.kind == name and each.gpus in can
    }
    if whole:
        left = max(LEAST_LEFT, 1.0 - _work_done(job, live, now, whole.get(here) if here else None))
        return {pair: max(LEAST_LEFT, left * all_s) for pair, all_s in whole.items()}
    left_s = _left_s(job, live, now, unknown_s)
    return {(kind, job.spec.gpus): max(LEAST_LEFT, left_s) for kind in kinds}


def _left_s(job: Job, live: Attempt | None, now: Instant, unknown_s: float) -> float:
    found = remaining(job, live, now)
    if found is not None:
        return found.value_s
    ran_s = 0.0 if live is None else max(0.0, now.since(live.started or live.launched) or 0.0)
    return max(OVERRUN * ran_s, unknown_s - ran_s)


def _work_done(job: Job, live: Attempt | None, now: Instant, whole_s: float | None) -> float:
    """Return the part of its work that a job has done. `whole_s`: all of it takes so long here."""
    if live is None:
        return (job.saved.work_done if job.saved is not None else None) or 0.0
    done, since = live.work_begun or 0.0, live.started
    if job.progress is not None and job.progress.work_done is not None:
        done, since = job.progress.work_done, job.progress.at
    passed_s = (now.since(since) or 0.0) if since is not None else 0.0
    return done + (max(0.0, passed_s) / whole_s if whole_s else 0.0)
