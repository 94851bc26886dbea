"""What people may order: each about jobs or devices that are theirs.

An order names several jobs at once by an array, a name or a glob; then it is about
those that it can be about, and only where there is none of them it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from radrm.core import events as ev
from radrm.core.records import Device, Job
from radrm.core.words import Collocation, DeviceKind, JobState
from radrm.daemon.asked import device_words, raw_options, reason_word
from radrm.daemon.chosen import chosen
from radrm.daemon.documents import Document
from radrm.daemon.envelopes import read_envelope, user_name
from radrm.daemon.followers import doomed
from radrm.daemon.intake import dependencies
from radrm.daemon.loop import Loop
from radrm.daemon.references import References
from radrm.daemon.server import Request
from radrm.errors import RadrmError, Refused
from radrm.host.mps.service import Mps
from radrm.options import merged, typed_whole

_OF_AN_ATTEMPT = frozenset({"name", "output", "error", "chdir", "env"})
"""Options that a live attempt was started with: its logs would not be found under others."""
_OF_AN_ESTIMATE = frozenset(
    {
        *("gpus", "gpu-memory", "smact", "duration", "mig-profile", "env", "chdir"),
        *("model-summary", "model-factory", "batch-size", "sequence-length", "input-shape"),
        *("optimizer", "precision"),
    }
)
"""Options that say, or decide, what the job will need."""

Order = Callable[[Loop, Request], Any]


# ------------------------------------------------------------------ jobs


def cancel(loop: Loop, request: Request) -> list[Document]:
    """End jobs, waiting or running. What is told of each names the jobs that fail with it."""

    def make(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        by = user_name(request.client.uid)
        return ev.CancelRequested(at=loop.clock.now(), job_id=job.id, by=by)

    results, events = _ordered(loop, request, make)
    done = [result for result in results if result["error"] is None]
    hit = doomed(loop.scheduler.state.jobs, (result["id"] for result in done))
    for result in done:
        if result["id"] in hit:
            result["followers"] = [job.label for job in hit.pop(result["id"])]
    loop.process(events)
    return results


def hold(loop: Loop, request: Request) -> list[Document]:
    """Keep waiting jobs from starting."""

    def make(job: Job) -> ev.Event:
        if not job.state.waiting:
            raise Refused(f"job {job.label} is {job.state.value}; only a waiting job can be held")
        if job.held:
            raise Refused(f"job {job.label} is held already")
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=True)

    return _each_job(loop, request, make, by_filter=True)


def release(loop: Loop, request: Request) -> list[Document]:
    """Let held jobs start, and those that pause before they are tried again."""

    def make(job: Job) -> ev.Event:
        if job.state.final or not (job.held or job.pause):
            raise Refused(f"job {job.label} is {job.state.value} and not held")
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=False)

    return _each_job(loop, request, make, by_filter=True)


def requeue(loop: Loop, request: Request) -> list[Document]:
    """Run jobs again: those that run, from the start; those that have ended, once more."""

    def make(job: Job) -> ev.Event:
        if job.state.waiting or job.state is JobState.STOPPING:
            raise Refused(f"job {job.label} is {job.state.value}; there is nothing to run again")
        by = user_name(request.client.uid)
        return ev.RequeueRequested(at=loop.clock.now(), job=_as_new(loop, job), by=by)

    return _each_job(loop, request, make, by_filter=True)


def _as_new(loop: Loop, job: Job) -> Job:
    """The job as it is to run again. One that never ran has its dependencies before it still:
    they are looked up anew, and refused anew where they cannot be met."""
    if not job.state.final or job.attempts:
        return job
    wanted = read_envelope(loop.store.submission(job.id).envelope).options.after
    try:
        after = dependencies(wanted, References(loop.scheduler, loop.store).target)
    except RadrmError as error:
        raise Refused(
            f"job {job.label} never ran and cannot: {error}; submit it with another --after"
        ) from None
    return replace(job, after=after)


def edit(loop: Loop, request: Request) -> list[Document]:
    """Change what unfinished jobs ask for."""
    changes = dict(raw_options(request.words))
    if isinstance(changes.get("after"), list):
        changes["after"] = ["none", *changes["after"]]  # it replaces what was asked before
    edited: list[tuple[int, dict[str, Any]]] = []

    def make(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        fixed = sorted(changes.keys() & _OF_AN_ATTEMPT)
        if fixed and not job.state.waiting:
            raise Refused(
                f"job {job.label} is {job.state.value}; --{fixed[0]} can change only while it waits"
            )
        event = _edited(loop, job, changes)
        refusal = loop.scheduler.refuse_edit(event)
        if refusal is not None:
            raise Refused(refusal)
        edited.append((job.id, merged(loop.store.edits(job.id), changes)))
        return event

    return _each_job(loop, request, make, edited)


def _edited(loop: Loop, job: Job, changes: dict[str, Any]) -> ev.EditRequested:
    """The job as it would be had it been submitted with these options, too."""
    submission = loop.store.submission(job.id)
    envelope = submission.envelope
    job_file = read_envelope(envelope, merged(envelope.options, changes))
    after = job.after
    if "after" in changes:
        find = References(loop.scheduler, loop.store).target
        after = dependencies(typed_whole({"after": changes["after"]}).after, find)
    told = None
    if changes.keys() & _OF_AN_ESTIMATE:
        told = loop.parts.estimation.told(job_file, envelope, submission.uid)
    return ev.EditRequested(
        at=loop.clock.now(),
        job_id=job.id,
        spec=job_file.spec(job.spec.user, job.spec.uid),
        estimates=told.estimates if told else None,
        after=after,
        estimating=told.estimating if told else False,
        fingerprint=told.fingerprint if told else None,
    )


def _each_job(
    loop: Loop,
    request: Request,
    make: Callable[[Job], ev.Event],
    edits: Sequence[tuple[int, dict[str, Any]]] = (),
    by_filter: bool = False,
) -> list[Document]:
    """Give the order about each job that the request names; what is to be told of each.

    `edits`, filled while the events are made, are saved with what comes of them.
    """
    results, events = _ordered(loop, request, make, by_filter)
    loop.process(events, edits=edits)
    return results


def _ordered(
    loop: Loop, request: Request, make: Callable[[Job], ev.Event], by_filter: bool = True
) -> tuple[list[Document], list[ev.Event]]:
    """What is to be told of each job that the request names, and the event of each; nothing
    has happened yet. `by_filter`: it may choose jobs by user and state, too."""
    results: list[Document] = []
    events: list[ev.Event] = []
    ordered: set[int] = set()
    """Jobs may be named twice, by id and by name."""
    for reference, found in chosen(loop, request, by_filter):
        refused: list[Document] = []
        done: list[Document] = []
        for job, error in found:
            try:
                if job is None or error is not None:
                    raise error or Refused(f"there is no job {reference}")
                if job.id not in ordered:
                    events.append(make(job))
                    ordered.add(job.id)
                done.append(_told(job, None))
            except RadrmError as refusal:
                refused.append(_told(job, str(refusal), reference))
        if refused and not done and len(refused) > 1:
            others = f" (and {len(refused) - 1} more of {reference[:80]} likewise)"
            refused[0]["error"] += others
        results += done or refused[:1]
    return results, events


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
    return _each_device(loop, request, True, reason_word(request.words))


def resume(loop: Loop, request: Request) -> list[Document]:
    """Have drained devices take jobs again."""
    return _each_device(loop, request, False, None)


def _each_device(loop: Loop, request: Request, drain: bool, reason: str | None) -> list[Document]:
    if request.client.uid not in (0, os.getuid()):
        raise Refused("only root and the daemon's own user may drain or resume devices")
    ledgers = loop.scheduler.state.ledgers
    devices = sorted((le.device for le in ledgers.values()), key=lambda d: d.index)
    wanted = device_words(request.words)
    every = [d.uuid for d in devices if drain or ledgers[d.uuid].drained is not None]
    results: list[Document] = []
    events: list[ev.Event] = []
    for word in wanted or every:
        try:
            device = _device(devices, word)
            ledger = ledgers[device.uuid]
            before = ledger.drained
            faulty = ledger.reading is not None and ledger.reading.fault is not None
            if not drain and before is None and not faulty:
                raise Refused(f"GPU {device.index} is not drained")
            if not drain:
                loop.acknowledge(device.uuid)
            why = (reason or before or "by an administrator") if drain else None
            events.append(ev.DrainRequested(at=loop.clock.now(), device=device.uuid, reason=why))
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


# ------------------------------------------------------------------ MPS


def mps_start(loop: Loop, request: Request) -> list[Document]:
    """Have MPS serve GPUs; `mps` tells what has become of it."""
    return _each_mps(loop, request, lambda mps, uuids: mps.turn_on(uuids))


def mps_stop(loop: Loop, request: Request) -> list[Document]:
    """Have MPS serve GPUs no more. With `force` their clients are ended."""
    force = request.words.get("force") is True

    def stop(mps: Mps, uuids: list[str]) -> None:
        busy = [] if force else _mps_clients(loop, uuids)
        if busy:
            more = " and others are its clients" if len(busy) > 1 else " is its client"
            raise Refused(f"job {busy[0]}{more}; wait for them, or end them with --force")
        mps.turn_off(uuids, force)

    return _each_mps(loop, request, stop)


def _mps_clients(loop: Loop, uuids: list[str]) -> list[str]:
    """The labels of the jobs that are clients on these devices."""
    state = loop.scheduler.state
    holdings = [h for uuid in uuids for h in state.ledgers[uuid].holdings.values()]
    clients = {h.job_id for h in holdings if h.collocation is Collocation.MPS}
    return [state.jobs[job_id].label for job_id in sorted(clients)]


def _each_mps(
    loop: Loop, request: Request, act: Callable[[Mps, list[str]], None]
) -> list[Document]:
    """Where one control daemon serves all GPUs, they are one; else each is by itself."""
    if request.client.uid not in (0, os.getuid()):
        raise Refused("only root and the daemon's own user may start or stop MPS")
    mps = loop.parts.site.mps
    if mps is None:
        raise Refused("software GPUs model MPS only where mps.enabled is set")
    ledgers = loop.scheduler.state.ledgers
    devices = sorted((le.device for le in ledgers.values()), key=lambda d: d.index)
    words = device_words(request.words)
    whole = [d for d in devices if d.kind is DeviceKind.GPU]
    chosen = [_device(devices, word) for word in words] or whole
    groups = [chosen] if mps.spans else [[device] for device in chosen]
    results: list[Document] = []
    for group in groups:
        error = None
        try:
            act(mps, [device.uuid for device in group])
        except Refused as refusal:
            error = str(refusal)
        results += [{"index": d.index, "uuid": d.uuid, "error": error} for d in group]
    loop.read_soon()
    return results


ORDERS: dict[str, Order] = {
    "cancel": cancel,
    "hold": hold,
    "release": release,
    "requeue": requeue,
    "edit": edit,
    "drain": drain,
    "resume": resume,
    "mps-start": mps_start,
    "mps-stop": mps_stop,
}
