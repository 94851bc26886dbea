"""The waiting jobs that are tried: those with due times by rank, the others in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from radrm.core.records import Job
from radrm.core.view import View
from radrm.deadlines.ranking import OLD, OTHER, Key, Ranking, old_from_s, prefix


def candidates(
    view: View, ranking: Ranking, first: Sequence[Job], depth: int, max_wait_s: float
) -> Iterator[Job]:
    """Yield the jobs to try; one may have started meanwhile.

    First come those of `first`, then `depth` with due times. Of the others it is the first one
    of their line: if that does not start, none of them is next.
    """
    now_s, tried = view.now.wall_s, set[int]()
    for job in first:
        tried.add(job.id)
        yield job
    keys = ranking.first(now_s)
    head = undue_head(view)
    head_key = None if head is None else _key(head, now_s, max_wait_s)
    for key in islice(keys, depth):
        while head is not None and head_key is not None and head_key < key:
            yield head
            head, head_key = _next(view, head, now_s, max_wait_s)
        due = view.job(key[3])
        if due is not None and due.id not in tried:
            yield due
    while head is not None:
        yield head
        head, head_key = _next(view, head, now_s, max_wait_s)


def _next(view: View, tried: Job, now_s: float, max_wait_s: float) -> tuple[Job | None, Key | None]:
    """Return the next job without a due time, if the one before has started, and its place."""
    head = undue_head(view)
    return (None, None) if head is None or head is tried else (head, _key(head, now_s, max_wait_s))


def undue_head(view: View) -> Job | None:
    """Return the first job of the line without a due time."""
    job_id = view.by_due().undue.head()
    return None if job_id is None else view.job(job_id)


def _key(job: Job, now_s: float, max_wait_s: float) -> Key:
    """Return the place of a job without a due time among those with one."""
    old_s = old_from_s(job, max_wait_s)
    is_old = old_s <= now_s
    return (prefix(job), OLD if is_old else OTHER, old_s if is_old else 0.0, job.id)


def any_due(view: View) -> bool:
    """Return whether a running job has a due time."""
    return any(job.spec.due_s is not None for job, _ in view.running())
