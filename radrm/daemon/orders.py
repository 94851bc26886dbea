"""What people may order: each about jobs or devices that are theirs.

An order names several jobs at once by an array, a name or a glob; then it is about
those that it can be about, and only where there is none of them it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from radrm.core import events as ev
from radrm.core.records import Device, Job
from radrm.core.words import JobState
from radrm.daemon.asked import device_words, raw_options, reason_word, references
from radrm.daemon.documents import Document
from radrm.daemon.intake import dependencies, estimate, read_envelope, user_name
from radrm.daemon.loop import Loop
from radrm.daemon.references import References
from radrm.daemon.server import Request
from radrm.errors import RadrmError, Refused
from radrm.options import merged, typed_whole

Order = Callable[[Loop, Request], Any]


# ------------------------------------------------------------------ jobs


def cancel(loop: Loop, request: Request) -> list[Document]:
    """End jobs, waiting or running."""

    def make(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        by = user_name(request.client.uid)
        return ev.CancelRequested(at=loop.clock.now(), job_id=job.id, by=by)

    return _each_job(loop, request, make)


def hold(loop: Loop, request: Request) -> list[Document]:
    """Keep waiting jobs from starting."""

    def make(job: Job) -> ev.Event:
        if not job.state.waiting:
            raise Refused(f"job {job.label} is {job.state.value}; only a waiting job can be held")
        if job.held:
            raise Refused(f"job {job.label} is held already")
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=True)

    return _each_job(loop, request, make)


def release(loop: Loop, request: Request) -> list[Document]:
    """Let held jobs start."""

    def make(job: Job) -> ev.Event:
        if not job.held or job.state.final:
            raise Refused(f"job {job.label} is {job.state.value} and not held")
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=False)

    return _each_job(loop, request, make)


def requeue(loop: Loop, request: Request) -> list[Document]:
    """Run jobs again: those that run, from the start; those that have ended, once more."""

    def make(job: Job) -> ev.Event:
        if job.state.waiting or job.state is JobState.STOPPING:
            raise Refused(f"job {job.label} is {job.state.value}; there is nothing to run again")
        by = user_name(request.client.uid)
        return ev.RequeueRequested(at=loop.clock.now(), job=job, by=by)

    return _each_job(loop, request, make)


def edit(loop: Loop, request: Request) -> list[Document]:
    """Change what unfinished jobs ask for."""
    changes = raw_options(request.words)
    edited: list[tuple[int, dict[str, Any]]] = []

    def make(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        event = _edited(loop, job, changes)
        refusal = loop.scheduler.refuse_edit(event)
        if refusal is not None:
            raise Refused(refusal)
        edited.append((job.id, merged(loop.store.edits(job.id), changes)))
        return event

    return _each_job(loop, request, make, lambda: loop.store.edit(edited))


def _edited(loop: Loop, job: Job, changes: dict[str, Any]) -> ev.EditRequested:
    """The job as it would be had it been submitted with these options, too."""
    envelope = loop.store.submission(job.id).envelope
    job_file = read_envelope(envelope, merged(envelope.options, changes))
    after = job.after
    if "after" in changes:
        find = References(loop.scheduler, loop.store).exact
        after = dependencies(typed_whole({"after": changes["after"]}).after, find)
    return ev.EditRequested(
        at=loop.clock.now(),
        job_id=job.id,
        spec=job_file.spec(job.spec.user, job.spec.uid),
        estimates=estimate(loop.parts.estimating, job_file, job.ticket),
        after=after,
    )


def _each_job(
    loop: Loop,
    request: Request,
    make: Callable[[Job], ev.Event],
    first: Callable[[], None] = lambda: None,
) -> list[Document]:
    """The event of each job that the request names, and what is to be told of each.

    `first` is done once all events are made, before anything comes of them.
    """
    results: list[Document] = []
    events: list[ev.Event] = []
    for reference in references(request.words):
        refused: list[Document] = []
        done: list[Document] = []
        for job, error in _named(loop, request, reference):
            try:
                if job is None or error is not None:
                    raise error or Refused(f"there is no job {reference}")
                events.append(make(job))
                done.append(_told(job, None))
            except RadrmError as refusal:
                refused.append(_told(job, str(refusal), reference))
        results += done or refused[:1]
    first()
    loop.process(events)
    return results


def _named(
    loop: Loop, request: Request, reference: str
) -> Iterator[tuple[Job | None, RadrmError | None]]:
    uid = request.client.uid
    master = uid in (0, os.getuid())
    try:
        found = References(loop.scheduler, loop.store).find(
            reference, lambda job: master or job.spec.uid == uid
        )
    except RadrmError as error:
        yield None, error
        return
    for job in found:
        if master or job.spec.uid == uid:
            yield job, None
        else:
            yield job, Refused(f"job {job.label} is {job.spec.user}'s, not yours")


def _told(job: Job | None, error: str | None, reference: str = "") -> Document:
    return {
        "id": job.id if job else reference,
        "label": job.label if job else reference,
        "name": job.spec.name if job else None,
        "state": job.state.value if job else None,
        "error": error,
    }


# ------------------------------------------------------------------ devices


def drain(loop: Loop, request: Request) -> list[Document]:
    """Have devices take no new job; what runs on them runs on."""
    return _each_device(loop, request, reason_word(request.words))


def resume(loop: Loop, request: Request) -> list[Document]:
    """Have drained devices take jobs again."""
    return _each_device(loop, request, None)


def _each_device(loop: Loop, request: Request, reason: str | None) -> list[Document]:
    if request.client.uid not in (0, os.getuid()):
        raise Refused("only root and the daemon's own user may drain or resume devices")
    ledgers = loop.scheduler.state.ledgers
    devices = sorted((le.device for le in ledgers.values()), key=lambda d: d.index)
    wanted = device_words(request.words)
    results: list[Document] = []
    events: list[ev.Event] = []
    for word in wanted or [d.uuid for d in devices]:
        try:
            device = _device(devices, word)
            if reason is None and wanted and ledgers[device.uuid].drained is None:
                raise Refused(f"GPU {device.index} is not drained")
            at = loop.clock.now()
            events.append(ev.DrainRequested(at=at, device=device.uuid, reason=reason))
            results.append({"index": device.index, "uuid": device.uuid, "error": None})
        except Refused as error:
            results.append({"index": None, "uuid": word, "error": str(error)})
    loop.process(events)
    return results


def _device(devices: list[Device], word: str) -> Device:
    """By index, UUID, or the beginning of one that no other has."""
    by_index = [d for d in devices if str(d.index) == word]
    found = by_index or [d for d in devices if len(word) >= 4 and d.uuid.startswith(word)]
    if len(found) != 1:
        there = ", ".join(str(d.index) for d in devices) or "none"
        many = "several GPUs are called" if found else "there is no GPU"
        raise Refused(f"{many} {word[:80]!r}; their indices are: {there}")
    return found[0]


ORDERS: dict[str, Order] = {
    "cancel": cancel,
    "hold": hold,
    "release": release,
    "requeue": requeue,
    "edit": edit,
    "drain": drain,
    "resume": resume,
}
