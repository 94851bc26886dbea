"""Which jobs an order is about: those that it names, or those of a user in some states.

Whose they are not learns so for each of them; what was not asked for is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from radrm.core.records import Job
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.asked import MAX_FINISHED, Words, filters, references, states
from radrm.daemon.views.references import Found, References, check_count
from radrm.errors import RadrmError, Refused


@dataclass(frozen=True, slots=True)
class Choice:
    """The jobs of each word, by their ids, before anything is done about any."""

    found: Sequence[Found]
    keep: Callable[[Job], bool] | None
    """Which of them are wanted, when their turn comes; None: all."""
    uid: int
    named: bool = True
    """Whether the request names them, one by one or by a glob."""

    @property
    def ids(self) -> Iterator[int]:
        return (job_id for each in self.found for job_id in each.ids)

    def refusal(self, job: Job) -> RadrmError | None:
        """Why the client may give no orders about a job; None where he may."""
        if is_master(self.uid) or job.spec.uid == self.uid:
            return None
        return Refused(f"job {job.label} is {job.spec.user}'s, not yours")


def chosen(loop: Loop, request: Request, by_filter: bool) -> Work[Choice]:
    """The jobs that the request names, or those that it chooses by user and state.

    Raises `Refused` for more than one order can be about.
    """
    words, uid = request.words, request.client.uid
    keep = filters(words) if by_filter else None
    if keep is None or words.get("jobs"):
        look_up = References(
            loop.scheduler, loop.store, None if is_master(uid) else uid, others=False
        )
        found = yield from look_up.find(references(words))
        choice = Choice(found, keep, uid)
    else:
        ids = yield from _filtered(loop, words, uid, keep)
        choice = Choice([Found("these jobs", ids)], keep, uid, named=False)
        check_count(len(ids))
    return choice


def _filtered(loop: Loop, words: Words, uid: int, keep: Callable[[Job], bool]) -> Work[list[int]]:
    named_user = words.get("user") is not None  # otherwise one's own are meant, root's too
    pace = Pace()
    found: list[int] = []
    for job in list(loop.scheduler.state.jobs.values()):
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


def is_master(uid: int) -> bool:
    """Root, and the daemon's own user, give orders about all jobs."""
    return uid in (0, os.getuid())
