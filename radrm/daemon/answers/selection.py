"""Which jobs a command is about: those that it names, or those of a user in some states.

A client that names jobs of others gets a refusal for each of them. Jobs that do not match the
filter of a request are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from radrm.core.records import Job
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import (
    MAX_FINISHED,
    Words,
    asks_for_ended,
    filters,
    references,
)
from radrm.daemon.views.references import Found, References, check_count
from radrm.errors import RadrmError, Refused

_MORE_LOOKS = 1_000_000
"""A command waits until its user's arrays are taken in; the time of a request is limited."""
_LOOKS_FOR_ROOT = 20
"""An administrator's command about arrays of others waits for so many looks: a user who goes on
submitting could keep the administrator from ending the jobs."""


class Selection(Struct, frozen=True):
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

    @property
    def by_name(self) -> set[int]:
        """The jobs that a name or glob chose, and neither an id nor a state."""
        if self.keep is not None:
            return set()
        by_id = {job_id for each in self.found if not each.by_name for job_id in each.ids}
        return set(self.ids) - by_id

    def refusal(self, job: Job) -> RadrmError | None:
        """Why the client may not command a job; None where it may."""
        if is_administrator(self.uid) or job.spec.uid == self.uid:
            return None
        return Refused(f"job {job.label} is {job.spec.user}'s, not yours")


def take_in(loop: Loop, names: Iterable[str], uid: int, most: int) -> Work[None]:
    """Take in these files, and the rest of a user's own arrays, by at most `most` more looks."""
    loop.scan(names, first=uid)
    while most > 0 and loop.intake.fills(uid):
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
    selection = yield from _select(loop, words, uid, by_filter)
    if is_administrator(uid) and (owners := _still_come(loop, selection)):
        for owner in owners:
            yield from take_in(loop, (), owner, _LOOKS_FOR_ROOT)
        selection = yield from _select(loop, words, uid, by_filter)
    return selection


def _still_come(loop: Loop, selection: Selection) -> list[int]:
    """Return the users whose arrays are selected while elements of them are still taken in."""
    arrays: dict[int, int] = {}
    for job_id in selection.ids:
        job = loop.scheduler.snapshot.job(job_id)
        if job is not None and job.array is not None:
            arrays[job.array.array_id] = job.spec.uid
    return sorted({uid for array_id, uid in arrays.items() if array_id in loop.intake.fills(uid)})


def _select(loop: Loop, words: Words, uid: int, by_filter: bool) -> Work[Selection]:
    keep = filters(words) if by_filter else None
    if keep is None or words.get("jobs"):
        look_up = References(
            *(loop.scheduler, loop.store, None if is_administrator(uid) else uid),
            others=False,
            me=uid,
            ended=by_filter and asks_for_ended(words),
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
        yield from pace.rest_if_spent()
    if asks_for_ended(words):
        for job_id in loop.store.finished(MAX_FINISHED):
            ended = loop.store.job(job_id)
            if ended is not None and keep(ended) and (named_user or ended.spec.uid == uid):
                found.append(job_id)
            yield from pace.rest_if_spent()
    return found


def is_administrator(uid: int) -> bool:
    """Whether a user may command all jobs and devices: root, and the daemon's own user."""
    return uid in (0, os.getuid())
