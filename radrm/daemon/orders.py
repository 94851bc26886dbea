"""What people may order: each about jobs or devices that are theirs.

An order names several jobs at once by an array, a name or a glob; then it is about
those that it can be about, and only where there is none of them it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from radrm.core import events as ev
from radrm.core.records import Dependency, Device, Job, JobSpec
from radrm.core.words import Collocation, DeviceKind, JobState
from radrm.daemon.asked import device_words, raw_options, reason_word
from radrm.daemon.chosen import Choice, chosen, is_master
from radrm.daemon.documents import Document
from radrm.daemon.envelopes import read_envelope, user_name
from radrm.daemon.estimation import Told as Known
from radrm.daemon.followers import Followers
from radrm.daemon.intake import dependencies
from radrm.daemon.loop import Loop
from radrm.daemon.references import References
from radrm.daemon.server import Request
from radrm.daemon.turns import MOST_EVENTS, Pace, Work
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

MAX_EDITS = 256 * 1024
"""Bytes of what has been edited of one job."""
_MOST_KNOWN = 100
"""Different jobs whose edited job files an order remembers."""

Order = Callable[[Loop, Request], Any]


class Told(msgspec.Struct, gc=False):
    """What is told of one job: as it was before the order, or why that was not carried out."""

    id: int | str
    label: str
    name: str | None
    state: str | None
    error: str | None
    followers: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Of a cancelled one, the jobs that fail with it."""


Make = Callable[[Job], "ev.Event | None"]
"""The event that carries an order out for a job; None where that has come about already.
Raises `Refused`."""


# ------------------------------------------------------------------ jobs


def cancel(loop: Loop, request: Request) -> Work[list[Told]]:
    """End jobs, waiting or running. What is told of each names the jobs that fail with it."""
    choice = yield from chosen(loop, request, by_filter=True)
    jobs, pace = loop.scheduler.state.jobs, Pace()
    unfinished = {job_id for job_id in choice.ids if job_id in jobs}
    followers = Followers(jobs, unfinished)
    for job in list(jobs.values()):
        followers.note(job)
        if pace.spent:
            yield from pace.rest()

    def make(job: Job) -> ev.Event | None:
        if job.state.final and job.id in unfinished:
            return None  # it followed one of those that were cancelled before it
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        by = user_name(request.client.uid)
        return ev.CancelRequested(at=loop.clock.now(), job_id=job.id, by=by)

    def act(done: list[Told], events: list[ev.Event]) -> None:
        cancelled = {int(told.id): told for told in done if told.error is None}
        for job_id, hit in followers.doomed(cancelled).items():
            cancelled[job_id].followers = [job.label for job in hit]
        loop.process(events)

    return (yield from _each_job(loop, request, choice, make, act))


def hold(loop: Loop, request: Request) -> Work[list[Told]]:
    """Keep waiting jobs from starting."""

    def make(job: Job) -> ev.Event:
        if not job.state.waiting:
            raise Refused(f"job {job.label} is {job.state.value}; only a waiting job can be held")
        if job.held:
            raise Refused(f"job {job.label} is held already")
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=True)

    choice = yield from chosen(loop, request, by_filter=True)
    return (yield from _each_job(loop, request, choice, make))


def release(loop: Loop, request: Request) -> Work[list[Told]]:
    """Let held jobs start, and those that pause before they are tried again."""

    def make(job: Job) -> ev.Event:
        if job.state.final or not (job.held or job.pause):
            raise Refused(f"job {job.label} is {job.state.value} and not held")
        return ev.HoldRequested(at=loop.clock.now(), job_id=job.id, held=False)

    choice = yield from chosen(loop, request, by_filter=True)
    return (yield from _each_job(loop, request, choice, make))


def requeue(loop: Loop, request: Request) -> Work[list[Told]]:
    """Run jobs again: those that run, from the start; those that have ended, once more."""

    def make(job: Job) -> ev.Event:
        if job.state.waiting or job.state is JobState.STOPPING:
            raise Refused(f"job {job.label} is {job.state.value}; there is nothing to run again")
        by = user_name(request.client.uid)
        return ev.RequeueRequested(at=loop.clock.now(), job=_as_new(loop, job), by=by)

    choice = yield from chosen(loop, request, by_filter=True)
    return (yield from _each_job(loop, request, choice, make))


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


@dataclass(frozen=True, slots=True)
class _Edited:
    """What a job asks for once it is edited; the elements of an array ask for the same."""

    options: dict[str, Any]
    spec: JobSpec
    after: tuple[Dependency, ...] | None
    """None: as it was."""
    told: Known | None


def edit(loop: Loop, request: Request) -> Work[list[Told]]:
    """Change what unfinished jobs ask for."""
    changes = dict(raw_options(request.words))
    if isinstance(changes.get("after"), list):
        changes["after"] = ["none", *changes["after"]]  # it replaces what was asked before
    known: dict[tuple[str, str | None], _Edited | RadrmError] = {}
    """By the ticket and what was edited before: all that an element can differ in."""
    edits: list[tuple[int, dict[str, Any]]] = []

    def make(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        fixed = sorted(changes.keys() & _OF_AN_ATTEMPT)
        if fixed and not job.state.waiting:
            raise Refused(
                f"job {job.label} is {job.state.value}; --{fixed[0]} can change only while it waits"
            )
        alike = (job.ticket, loop.store.edited(job.id))
        if alike not in known:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[alike] = _tried(loop, job, changes)
        edited = known[alike]
        if isinstance(edited, RadrmError):
            raise edited
        told = edited.told
        event = ev.EditRequested(
            at=loop.clock.now(),
            job_id=job.id,
            spec=edited.spec,
            estimates=told.estimates if told else None,
            after=job.after if edited.after is None else edited.after,
            estimating=told.estimating if told else False,
            fingerprint=told.fingerprint if told else None,
        )
        refusal = loop.scheduler.refuse_edit(event)
        if refusal is not None:
            raise Refused(refusal)
        edits.append((job.id, edited.options))
        return event

    def act(done: list[Told], events: list[ev.Event]) -> None:
        changed = edits[:]
        edits.clear()
        if "after" in changes:
            known.clear()  # what it is to follow may have ended meanwhile
        loop.process(events, edits=changed)

    choice = yield from chosen(loop, request, by_filter=False)
    return (yield from _each_job(loop, request, choice, make, act))


def _tried(loop: Loop, job: Job, changes: dict[str, Any]) -> _Edited | RadrmError:
    try:
        return _edited(loop, job, changes)
    except RadrmError as error:
        return error


def _edited(loop: Loop, job: Job, changes: dict[str, Any]) -> _Edited:
    """The job as it would be had it been submitted with these options, too."""
    options = merged(loop.store.edits(job.id), changes)
    size = len(json.dumps(options))
    if size > MAX_EDITS:
        raise Refused(
            f"the changes of job {job.label} would take {size} bytes, and {MAX_EDITS} is the "
            "most; submit it anew"
        )
    submission = loop.store.submission(job.id)
    envelope = submission.envelope
    job_file = read_envelope(envelope, merged(envelope.options, changes))
    after = None
    if "after" in changes:
        find = References(loop.scheduler, loop.store).target
        after = dependencies(typed_whole({"after": changes["after"]}).after, find)
    told = None
    if changes.keys() & _OF_AN_ESTIMATE:
        told = loop.parts.estimation.told(job_file, envelope, submission.uid)
    return _Edited(options, job_file.spec(job.spec.user, job.spec.uid), after, told)


def _each_job(
    loop: Loop,
    request: Request,
    choice: Choice,
    make: Make,
    act: Callable[[list[Told], list[ev.Event]], None] | None = None,
) -> Work[list[Told]]:
    """Give the order about each chosen job, a few at a time; what is to be told of each.

    A job that several words mean is told of once. Of a word none of whose jobs the order
    could be about, the first refusal is told.
    """
    look_up = References(loop.scheduler, loop.store)
    results: list[Told] = []
    ordered: set[int] = set()
    """Jobs may be named twice, by id and by name."""
    events: list[ev.Event] = []
    done: list[Told] = []
    pace = Pace()
    request.total = sum(len(each.ids) for each in choice.found)

    def carry_out() -> None:
        act(done, events) if act is not None else loop.process(events)
        request.done += sum(1 for told in done if told.error is None)
        results.extend(done)
        done.clear()
        events.clear()

    for found in choice.found:
        tally = _Tally(found.word, choice.named and choice.keep is not None)
        if found.error is not None:
            tally.refused(None, found.error)
        for job_id in found.ids:
            if job_id in ordered:
                tally.any_done = True
                continue
            job = look_up.current(job_id)
            try:
                if job is None:
                    raise Refused(f"there is no job {job_id}")
                refusal = choice.refusal(job)
                if refusal is not None:
                    raise refusal
                if choice.keep is not None and not choice.keep(job):
                    continue
                event = make(job)
                events += [event] if event is not None else []
                ordered.add(job_id)
                tally.any_done = True
                done.append(Told(job.id, job.label, job.spec.name, job.state.value, None))
            except RadrmError as error:
                tally.refused(job, error)
            if len(events) >= MOST_EVENTS or pace.spent:
                carry_out()
                yield from pace.rest()
        if not tally.any_done and (told := tally.told()) is not None:
            done.append(told)
    carry_out()
    return results


class _Tally:
    """What came of the jobs of one word."""

    def __init__(self, word: str, filtered: bool) -> None:
        self.any_done = False
        self._word = word
        self._filtered = filtered
        self._first: Told | None = None
        self._refusals = 0

    def refused(self, job: Job | None, error: RadrmError) -> None:
        self._refusals += 1
        if self._first is not None:
            return
        if job is None:
            self._first = Told(self._word, self._word, None, None, str(error))
        else:
            state = job.state.value
            self._first = Told(job.id, job.label, job.spec.name, state, str(error))

    def told(self) -> Told | None:
        """The first refusal, and how many more there are; None where nothing was refused."""
        if self._first is None and self._filtered:
            error = f"no job of {self._word[:80]!r} is of that user and state"
            return Told(self._word, self._word, None, None, error)
        if self._first is not None and self._refusals > 1:
            others = f" (and {self._refusals - 1} more of {self._word[:80]} likewise)"
            self._first.error = f"{self._first.error}{others}"
        return self._first


# ------------------------------------------------------------------ devices


def drain(loop: Loop, request: Request) -> list[Document]:
    """Have devices take no new job; what runs on them runs on."""
    return _each_device(loop, request, True, reason_word(request.words))


def resume(loop: Loop, request: Request) -> list[Document]:
    """Have drained devices take jobs again."""
    return _each_device(loop, request, False, None)


def _each_device(loop: Loop, request: Request, drain: bool, reason: str | None) -> list[Document]:
    if not is_master(request.client.uid):
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
    if not is_master(request.client.uid):
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
