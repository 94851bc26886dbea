"""The jobs that were there in a time, with their attempts, in pieces of a few ms.

Jobs that had not ended when the question came count as they were then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radrm.core.records import Instant, Job
from radrm.daemon.answers.past.held import Held, Sum
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.errors import Refused
from radrm.host.storage.ended import AT_ONCE, PastAttempt, PastJob, PastSpec

MOST_JOBS = 400_000
"""Jobs that one question can look at."""

Visit = Callable[[PastJob, Sequence[PastAttempt]], "Sum | None"]
"""Hears of a job and its attempts; returns what adds up its GPU time, if anything does."""


def gather(loop: Loop, begin_s: float, end_s: float, now: Instant, visit: Visit) -> Work[Held]:
    """Visit the jobs that ended since `begin_s` and those that have not ended.

    Returns the time for which they held GPUs between the two times (epoch seconds, until now at
    most). Raises `Refused` for too many jobs.
    """
    held, pace = Held(begin_s, end_s), Pace()
    open_jobs: list[PastJob] = []
    for job in loop.scheduler.snapshot.jobs:
        if job.attempts:
            open_jobs.append(_past(job))
        if pace.spent:
            yield from pace.rest()
    count = len(open_jobs)
    known = {job.id for job in open_jobs}
    for at in range(0, count, AT_ONCE):
        yield from _visit(loop, open_jobs[at : at + AT_ONCE], now, visit, held)
    for uid in list(loop.store.rows.users()):
        for some in loop.store.ended.of_user(uid, begin_s, float("inf")):
            count += len(some)
            if count > MOST_JOBS:
                raise Refused(
                    f"more than {MOST_JOBS} jobs have ended since then; take a shorter time, as in "
                    "--since 1d"
                )
            new = [job for job in some if job.id not in known]
            yield from _visit(loop, new, now, visit, held)
    return held


def _past(job: Job) -> PastJob:
    spec = PastSpec(job.spec.name, job.spec.user, job.spec.group)
    return PastJob(job.id, spec, job.submitted, job.state, job.started, job.ended)


def _visit(
    loop: Loop, jobs: Sequence[PastJob], now: Instant, visit: Visit, held: Held
) -> Work[None]:
    """Visit some jobs: a piece of work or more."""
    made: dict[int, list[PastAttempt]] = {job.id: [] for job in jobs}
    for some in loop.store.ended.attempts(list(made)):
        for each in some:
            made[each.job_id].append(each)
        yield
    for job in jobs:
        attempts = made[job.id]
        to = visit(job, attempts)
        for each in attempts:
            held.add(each.devices, *each.stay(now), to)
