"""What people may order about jobs that are theirs.

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
from radrm.core.records import Dependency, Job, JobSpec
from radrm.core.words import JobState
from radrm.daemon.answers.chosen import Choice, chosen
from radrm.daemon.answers.device_orders import drain, mps_start, mps_stop, resume
from radrm.daemon.answers.followers import Followers
from radrm.daemon.intake.batch import dependencies
from radrm.daemon.intake.envelopes import read_envelope, user_name
from radrm.daemon.intake.estimation import Told as Known
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import MOST_EVENTS, Pace, Work
from radrm.daemon.views.asked import raw_options
from radrm.daemon.views.references import References
from radrm.errors import RadrmError, Refused
from radrm.jobfile.options import merged, typed_whole

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
