"""The command `edit`: change what unfinished jobs ask for."""

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


def edit(loop: Loop, request: Request) -> Work[list[JobResult]]:
    """Change what unfinished jobs ask for."""
    now_here = here(loop.clock.now().wall_s)
    changes = dict(dated(raw_options(request.words), now_here, "edited options", past=True))
    if changes.get("after"):
        named = typed({"after": changes["after"]}, "edited options").after
        if any(each.looked_up for each in named):
            look_up = References(loop.scheduler, loop.store, request.client.uid)
            changes["after"] = yield from look_up.followed(named)
    for name in ("after", "notify"):
        if isinstance(words := changes.get(name), list):
            # Edits add up in lists; "none" first makes the new values replace the old ones.
            changes[name] = ["none", *words]
    known: dict[tuple[object, ...], _Edited | RadrmError] = {}
    """By the ticket, the earlier edits and the values of a sweep: elements of an array differ in
    nothing else."""
    edits: list[tuple[int, dict[str, Any]]] = []
    late: dict[int, str] = {}
    folders: dict[int, str] = {}
    tells = request.words.get("folders") is True and bool(changes.keys() & marked(FOLDER))
    unsent = not_notified(loop, typed({"notify": changes.get("notify", [])}, "edited options"))

    def make_event(job: Job) -> ev.Event:
        if job.state.final:
            raise Refused(f"job {job.label} has ended already ({job.state.value})")
        fixed = sorted(changes.keys() & marked(START))
        if fixed and not job.state.waiting:
            raise Refused(
                f"job {job.label} is {job.state.value}; --{fixed[0]} can change only while it waits"
            )
        if changes.keys() & marked(SIZE) and not job.state.waiting:
            raise Refused(
                f"job {job.label} is {job.state.value}; its range can change only while it waits. "
                f"Another size within it: radrm resize {job.label} --gpus=N"
            )
        params = job.array.params if job.array is not None else ()
        alike = (job.ticket, loop.store.submissions.edits_digest(job.id), params)
        if alike not in known:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[alike] = _edited_or_error(loop, job, changes)
        edited = known[alike]
        if isinstance(edited, RadrmError):
            raise edited
        mine = loop.parts.users.of(request.client.uid)
        if "priority" in changes and (why := refuse_priority(mine, edited.spec.priority)):
            raise Refused(why)
        knowledge = edited.knowledge
        event = ev.EditRequested(
            at=loop.clock.now(),
            job_id=job.id,
            spec=edited.spec,
            estimates=knowledge.estimates if knowledge else None,
            after=job.after if edited.after is None else edited.after,
            estimating=knowledge.estimating if knowledge else False,
            fingerprint=knowledge.fingerprint if knowledge else None,
            profile=knowledge.profile if knowledge else (),
        )
        refusal = loop.scheduler.refuse_edit(event)
        if refusal is not None:
            raise Refused(refusal)
        edits.append((job.id, edited.options))
        if changes.keys() & marked(END) and (why := _too_late(loop, job, edited)) is not None:
            late[job.id] = why
        if tells and job.spec.uid == request.client.uid:
            folders[job.id] = edited.folder
        return event

    def carry_out(done: list[JobResult], events: list[ev.Event]) -> None:
        changed = edits[:]
        edits.clear()
        for at, result in enumerate(done):
            if isinstance(result.id, int) and result.error is None:
                why = late.pop(result.id, None)
                warning = "; ".join([*([why] if why else []), *unsent]) or None
                folder = folders.pop(result.id, None)
                done[at] = msgspec.structs.replace(result, warning=warning, folder=folder)
        if "after" in changes:
            known.clear()  # a job that others follow may end before the next piece
        loop.process(events, edits=changed)

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
