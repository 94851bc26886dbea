"""Which jobs a command is about: those that it names, or those of a user in some states.

A client that names jobs of others gets a refusal for each of them. Jobs that do not match the
filter of a request are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from radrm.core.records import Job
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import MAX_FINISHED, Words, filters, references, states
from radrm.daemon.views.references import Found, References, check_count
from radrm.errors import RadrmError, Refused

_MORE_LOOKS = 1_000_000
"""A command waits until arrays are taken in; the time of a request is limited."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs of each word, by their ids, as they were before the command changed any."""

    found: Sequence[Found]
    keep: Callable[[Job], bool] | None
    """Whether the command is about a job; called at the job's turn. None: about all jobs."""
    uid: int
    named: bool = True
    """Whether the request names the jobs, by id, name or glob."""

    @property
    def ids(self) -> Iterator[int]:
        return (job_id for each in self.found for job_id in each.ids)

    def refusal(self, job: Job) -> RadrmError | None:
        """Why the client may not command a job; None where it may."""
        if is_administrator(self.uid) or job.spec.uid == self.uid:
            return None
        return Refused(f"job {job.label} is {job.spec.user}'s, not yours")


def take_in(loop: Loop, names: Iterable[str], uid: int, most: int) -> Work[None]:
    """Take in these files, and the rest of a user's arrays (root: of all), by `most` more looks."""
    loop.scan(names, first=uid)
    while most > 0 and loop.intake.fills(uid or None):
        yield
        loop.scan(first=uid)
        most -= 1


def select_jobs(loop: Loop, request: Request, by_filter: bool) -> Work[Selection]:
    """The jobs that the request names, or those that it selects by user and state.

    Raises `Refused` for more jobs than one command can be about.
    """
    words, uid = request.words, request.client.uid
    # Else elements would come that the command is about, and would never hear of it.
    yield from take_in(loop, (), uid, _MORE_LOOKS)
    keep = filters(words) if by_filter else None
    if keep is None or words.get("jobs"):
        look_up = References(
            *(loop.scheduler, loop.store, None if is_administrator(uid) else uid),
            others=False,
            me=uid,
        )
        found = yield from look_up.find(references(words))
        selection = Selection(found, keep, uid)
    else:
        ids = yield from _filtered(loop, words, uid, keep)
        selection = Selection([Found("these jobs", ids)], keep, uid, named=False)
        check_count(len(ids))
    return selection


def _filtered(loop: Loop, words: Words, uid: int, keep: Callable[[Job], bool]) -> Work[list[int]]:
    # Without a user, a filter means the client's own jobs, also for root.
    named_user = words.get("user") is not None
    pace = Pace()
    found: list[int] = []
    for job in loop.scheduler.snapshot.jobs:
        if keep(job) and (named_user or job.spec.uid == uid):
            found.append(job.id)
        if pace.spent:
            yield from pace.rest()
    if any(wanted.final for wanted in states(words)):
        for job_id in loop.store.finished(MAX_FINISHED):
            ended = loop.store.job(job_id)
            if ended is not None and keep(ended) and (named_user or ended.spec.uid == uid):
                found.append(job_id)
            if pace.spent:
                yield from pace.rest()
    return found


def is_administrator(uid: int) -> bool:
    """Whether a user may command all jobs and devices: root, and the daemon's own user."""
    return uid in (0, os.getuid())
