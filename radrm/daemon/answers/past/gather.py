"""The jobs that were there in a time, with their attempts, in pieces of a few ms.

Jobs that had not ended when the question came count as they were then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from radrm.core.records import Instant, Job
from radrm.daemon.answers.past.held import Held, Sum
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.errors import Refused
from radrm.host.storage.ended import AT_ONCE, PastAttempt, PastJob, PastSpec, UsedAttempt

MOST_JOBS = 400_000
"""Jobs that one question can look at."""

Visit = Callable[[PastJob, Sequence[PastAttempt]], "Sum | None"]
"""Hears of a job and its attempts; returns what adds up its GPU time, if anything does."""

_A = TypeVar("_A", bound=PastAttempt)


def gather(loop: Loop, begin_s: float, end_s: float, now: Instant, visit: Visit) -> Work[Held]:
    """Visit the jobs that ended since `begin_s` and those that have not ended.

    Returns the time for which they held GPUs between the two times (epoch seconds, until now at
    most). Raises `Refused` for too many jobs.
    """
    return (yield from _gather(loop, begin_s, end_s, now, visit, loop.store.ended.attempts))


def gather_used(
    loop: Loop,
    begin_s: float,
    end_s: float,
    now: Instant,
    visit: Callable[[PastJob, Sequence[UsedAttempt]], Sum | None],
) -> Work[Held]:
    """As `gather`, with what the attempts used."""
    return (yield from _gather(loop, begin_s, end_s, now, visit, loop.store.ended.used))


def _gather(
    loop: Loop,
    begin_s: float,
    end_s: float,
    now: Instant,
    visit: Callable[[PastJob, Sequence[_A]], Sum | None],
    read: Callable[[Sequence[int]], Iterator[list[_A]]],
) -> Work[Held]:
    held, pace = Held(begin_s, end_s), Pace()
    open_jobs: list[PastJob] = []
    for job in loop.scheduler.snapshot.jobs:
        if job.attempts:
            open_jobs.append(past_job(job))
        if pace.spent:
            yield from pace.rest()
    count = len(open_jobs)
    known = {job.id for job in open_jobs}
    for at in range(0, count, AT_ONCE):
        yield from _visit(open_jobs[at : at + AT_ONCE], now, visit, held, read)
    for uid in list(loop.store.rows.users()):
        for some in loop.store.ended.of_user(uid, begin_s, float("inf")):
            count += len(some)
            if count > MOST_JOBS:
                raise Refused(
                    f"more than {MOST_JOBS} jobs have ended since then; take a shorter time, as in "
                    "--since 1d"
                )
            new = [job for job in some if job.id not in known]
            yield from _visit(new, now, visit, held, read)
    return held


def past_job(job: Job) -> PastJob:
    """Return what sums need of a job that has not ended."""
    spec = PastSpec(job.spec.name, job.spec.user, job.spec.group)
    return PastJob(job.id, spec, job.submitted, job.state, job.started, job.ended)


def _visit(
    jobs: Sequence[PastJob],
    now: Instant,
    visit: Callable[[PastJob, Sequence[_A]], Sum | None],
    held: Held,
    read: Callable[[Sequence[int]], Iterator[list[_A]]],
) -> Work[None]:
    """Visit some jobs: a piece of work or more."""
    made: dict[int, list[_A]] = {job.id: [] for job in jobs}
    for some in read(list(made)):
        for each in some:
            made[each.job_id].append(each)
        yield
    for job in jobs:
        attempts = made[job.id]
        to = visit(job, attempts)
        for each in attempts:
            held.add(each.devices, *each.stay(now), to)
