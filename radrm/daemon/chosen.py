"""Which jobs an order is about: those that it names, or those of a user in some states.

Whose they are not learns so for each of them; what was not asked for is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from radrm.core.records import Job
from radrm.daemon.asked import filters, references, states
from radrm.daemon.loop import Loop
from radrm.daemon.questions import MAX_FINISHED
from radrm.daemon.references import References
from radrm.daemon.server import Request
from radrm.errors import RadrmError, Refused

Found = Iterator["tuple[Job | None, RadrmError | None]"]


def chosen(loop: Loop, request: Request, by_filter: bool) -> Iterator[tuple[str, Found]]:
    """The jobs of each word of the request, or those that it chooses by user and state. Whose
    they are not gets an error with them."""
    words = request.words
    keep = filters(words) if by_filter else None
    if keep is None or words.get("jobs"):
        for reference in dict.fromkeys(references(words)):
            named = _named(loop, request, reference)
            yield reference, named if keep is None else _kept(named, keep, reference)
        return
    state = loop.scheduler.state
    jobs = list(state.jobs.values())
    if any(wanted.final for wanted in states(words)):
        jobs += loop.store.finished(MAX_FINISHED)
    uid = request.client.uid
    named_user = words.get("user") is not None  # otherwise one's own are meant, root's too
    found = (job for job in jobs if keep(job) and (named_user or job.spec.uid == uid))
    yield "these jobs", _theirs(request, found)


def _kept(found: Found, keep: Callable[[Job], bool], reference: str) -> Found:
    """Those of a word that are wanted; what cannot be had stays an error."""
    none = True
    for job, error in found:
        if job is None or error is not None or keep(job):
            none = False
            yield job, error
    if none:
        yield None, Refused(f"no job of {reference[:80]!r} is of that user and state")


def _named(
    loop: Loop, request: Request, reference: str
) -> Iterator[tuple[Job | None, RadrmError | None]]:
    uid = request.client.uid
    master = _is_master(uid)
    try:
        found = References(loop.scheduler, loop.store).find(
            reference, lambda job: master or job.spec.uid == uid
        )
    except RadrmError as error:
        yield None, error
        return
    yield from _theirs(request, found)


def _is_master(uid: int) -> bool:
    """Root, and the daemon's own user, give orders about all jobs."""
    return uid in (0, os.getuid())


def _theirs(request: Request, found: Iterable[Job]) -> Found:
    """Each job, with an error where it is not for the client to give orders about it."""
    uid = request.client.uid
    for job in found:
        if _is_master(uid) or job.spec.uid == uid:
            yield job, None
        else:
            yield job, Refused(f"job {job.label} is {job.spec.user}'s, not yours")
