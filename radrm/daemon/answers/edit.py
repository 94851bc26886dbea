"""Change what jobs ask for: the command `edit`, and the options of `requeue`."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
from msgspec import Struct

from radrm.core import events as ev
from radrm.core.records import Dependency, Job, JobSpec
from radrm.daemon.answers.each_job import JobResult, for_each_job
from radrm.daemon.answers.questions import not_notified
from radrm.daemon.answers.selection import select_jobs
from radrm.daemon.intake.admission import refuse_priority
from radrm.daemon.intake.batch import dependencies
from radrm.daemon.intake.estimation import Knowledge
from radrm.daemon.loop import Loop
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import Work
from radrm.daemon.views.arguments import raw_options
from radrm.daemon.views.references import References
from radrm.errors import RadrmError, Refused
from radrm.host.storage.submission import here
from radrm.jobfile.moments import too_late
from radrm.jobfile.options import END, FOLDER, NEED, SIZE, START, marked
from radrm.jobfile.parsing import dated, merged, typed
from radrm.structs import replace

MAX_EDITS = 256 * 1024
"""Bytes of all edited options of one job."""
_MOST_KNOWN = 100
"""Different edited job files that one command remembers."""


class _Edited(Struct, frozen=True):
    """What a job asks for after the edit. All elements of an array share it."""

    options: dict[str, Any]
    spec: JobSpec
    after: tuple[Dependency, ...] | None
    """None: as before."""
    knowledge: Knowledge | None
    """What is known of its need now; None: as before."""
    folder: str
    """Where it will run and write its logs."""


class Changes:
    """What one request changes of its jobs: `edit`, and `requeue` with options.

    `event` and `again` check a job and note what is to be stored of it; `finish` ends a piece.
    """

    def __init__(self, loop: Loop, request: Request, raw: dict[str, Any]) -> None:
        self._loop, self._request, self._raw = loop, request, raw
        self.names = frozenset(raw)
        self._known: dict[tuple[object, ...], _Edited | RadrmError] = {}
        """By the ticket, the earlier edits and the values of a sweep: elements of an array differ
        in nothing else."""
        self._edits: list[tuple[int, dict[str, Any]]] = []
        self._late: dict[int, str] = {}
        self._folders: dict[int, str] = {}
        self._tells = request.words.get("folders") is True and bool(raw.keys() & marked(FOLDER))
        asked = typed({"notify": raw.get("notify", [])}, "edited options")
        self._unsent = not_notified(loop, asked)

    @classmethod
    def of(cls, loop: Loop, request: Request) -> Work[Changes]:
        """Read the options of a request. Raises `UsageError` for wrong ones."""
        now_here = here(loop.clock.now().wall_s)
        raw = dict(dated(raw_options(request.words), now_here, "edited options", past=True))
        if raw.get("after"):
            named = typed({"after": raw["after"]}, "edited options").after
            if any(each.looked_up for each in named):
                look_up = References(loop.scheduler, loop.store, request.client.uid)
                raw["after"] = yield from look_up.followed(named)
        for name in ("after", "notify"):
            if isinstance(words := raw.get(name), list):
                # Edits add up in lists; "none" first makes the new values replace the old ones.
                raw[name] = ["none", *words]
        return cls(loop, request, raw)

    def event(self, job: Job) -> ev.EditRequested:
        """Return the event that changes an unfinished job. Raises `Refused`."""
        ranged = any(role.count_max > role.count_min for role in job.spec.roles)
        names = marked(START) if ranged else marked(START) | marked(SIZE)
        fixed = sorted(self._raw.keys() & names)
        if fixed and not job.state.waiting:
            raise Refused(
                f"job {job.label} is {job.state.value}; --{fixed[0]} can change only while it waits"
            )
        if self._raw.keys() & marked(SIZE) and not job.state.waiting:
            raise Refused(
                f"job {job.label} is {job.state.value}; its range can change only while it waits. "
                f"Another size within it: radrm resize {job.label} --gpus=N"
            )
        edited = self._edited(job)
        knowledge = edited.knowledge
        event = ev.EditRequested(
            at=self._loop.clock.now(),
            job_id=job.id,
            spec=edited.spec,
            estimates=knowledge.estimates if knowledge else None,
            after=job.after if edited.after is None else edited.after,
            estimating=knowledge.estimating if knowledge else False,
            fingerprint=knowledge.fingerprint if knowledge else None,
            profile=knowledge.profile if knowledge else (),
        )
        refusal = self._loop.scheduler.refuse_edit(event)
        if refusal is not None:
            raise Refused(refusal)
        self._note(job, edited)
        return event

    def again(self, job: Job) -> Job:
        """Return the record of an ended job with the changes. Raises `Refused`."""
        edited = self._edited(job)
        again = replace(job, spec=edited.spec)
        if edited.after is not None:
            again = replace(again, after=edited.after)
        if (known := edited.knowledge) is not None:
            again = again.estimated_anew(
                known.estimates, known.estimating, known.fingerprint, known.profile
            )
        refusal = self._loop.scheduler.refuse_again(again)
        if refusal is not None:
            raise Refused(f"job {job.label}: {refusal}")
        self._note(job, edited)
        return again

    def finish(self, done: list[JobResult]) -> list[tuple[int, dict[str, Any]]]:
        """Complete the results of a piece, and return what is to be stored of its jobs."""
        for at, result in enumerate(done):
            if isinstance(result.id, int) and result.error is None:
                why = self._late.pop(result.id, None)
                warning = "; ".join([*([why] if why else []), *self._unsent]) or None
                folder = self._folders.pop(result.id, None)
                done[at] = msgspec.structs.replace(result, warning=warning, folder=folder)
        if "after" in self._raw:
            self._known.clear()  # a job that others follow may end before the next piece
        edits, self._edits = self._edits, []
        return edits

    def _edited(self, job: Job) -> _Edited:
        """Return what the job asks for after the edit. Raises `RadrmError`."""
        params = job.array.params if job.array is not None else ()
        alike = (job.ticket, self._loop.store.submissions.edits_digest(job.id), params)
        if alike not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[alike] = _edited_or_error(self._loop, job, self._raw)
        edited = self._known[alike]
        if isinstance(edited, RadrmError):
            raise edited
        mine = self._loop.parts.users.of(self._request.client.uid)
        if "priority" in self._raw and (why := refuse_priority(mine, edited.spec.priority)):
            raise Refused(why)
        return edited

    def _note(self, job: Job, edited: _Edited) -> None:
        self._edits.append((job.id, edited.options))
        why = _too_late(self._loop, job, edited) if self._raw.keys() & marked(END) else None
        if why is not None:
            self._late[job.id] = why
        if self._tells and job.spec.uid == self._request.client.uid:
            self._folders[job.id] = edited.folder


def edit(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Change what unfinished jobs ask for."""
    changes = yield from Changes.of(loop, request)

    def make_event(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(
                f"job {job.label} has ended already ({job.state.value}); radrm requeue "
                f"{job.label} OPTIONS runs it again with other options"
            )
        return changes.event(job)

    def carry_out(done: list[JobResult], events: list[ev.Event]) -> None:
        loop.process(events, edits=changes.finish(done))

    selection = yield from select_jobs(loop, request, by_filter=False)
    return (yield from for_each_job(loop, request, selection, make_event, carry_out))


def _too_late(loop: Loop, job: Job, edited: _Edited) -> str | None:
    """Why the edited job cannot end in time; None if it can, or if that is unknown."""
    known = edited.knowledge.estimates if edited.knowledge is not None else job.estimates
    job, now = replace(job, spec=edited.spec, estimates=known), loop.clock.now()
    expected = loop.parts.foresight.of(job, loop.scheduler.snapshot.attempt(job.id), now)
    return too_late(expected.needs_s, job.spec.due_s, max(now.wall_s, job.spec.begin_s or 0.0))


def _edited_or_error(loop: Loop, job: Job, changes: dict[str, Any]) -> _Edited | RadrmError:
    """The edited job, or why the edit is impossible. Elements of an array share both."""
    try:
        return _edited(loop, job, changes)
    except RadrmError as error:
        return error


def _edited(loop: Loop, job: Job, changes: dict[str, Any]) -> _Edited:
    """The job as if its submission had these options too. Raises `RadrmError`."""
    submission = loop.store.submissions.of_job(job.id)
    options = merged(submission.edits, changes)
    size = len(json.dumps(options))
    if size > MAX_EDITS:
        raise Refused(
            f"the changes of job {job.label} would take {size} bytes, and {MAX_EDITS} is the "
            "most; submit it again instead"
        )
    job_file = submission.job_file(changes)
    after = None
    if "after" in changes:
        find = References(loop.scheduler, loop.store).target
        after = dependencies(job_file.options.after, find)
    knowledge = None
    if changes.keys() & marked(NEED):
        knowledge = loop.parts.estimates.estimation.known_at_once(
            job_file, submission.envelope, submission.uid
        )
    spec = replace(job_file.spec(job.spec.user, job.spec.uid), group=job.spec.group)
    folder = os.path.join(submission.envelope.cwd, job_file.options.chdir or "")
    return _Edited(options, spec, after, knowledge, folder)
