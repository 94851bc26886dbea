"""The questions `status` and `page`: the documents of many jobs, in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice

from msgspec.structs import replace

from radrm.core.snapshot import Snapshot
from radrm.core.words import JobState
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import Words, cursor, page
from radrm.daemon.views.device_documents import are_simulated
from radrm.daemon.views.documents import Document, JobDocuments
from radrm.daemon.views.rows import EndedRun, Line, Row
from radrm.daemon.views.submitted import submitted
from radrm.documents.jobs import Job as JobDocument
from radrm.errors import Refused
from radrm.host.storage.ended import Ended

ROWS = 500
BYTES = 2**20
"""Roughly the length of one page. A page ends at the first of the two limits."""
MOST_ROWS = 2000
"""Rows of an answer to a client that does not ask in pages."""


def status(loop: Loop, words: Words, uid: int) -> Work[list[JobDocument] | Document]:
    """All jobs that the client asks for, each with all fields.

    A client that sends a cursor (`after`) gets a page of jobs by id, and the cursor of the next
    page. If the jobs are few, it gets all of them at once, in queue order.
    """
    after = cursor(words)
    table = yield from loop.tables.get(loop.scheduler, loop.store, words, uid)
    lines, full = table.lines, bool(words.get("jobs"))
    reader = uid if full and words.get("given") is True else None
    if after is None:
        documents, left = yield from documents_of(loop, lines[:MOST_ROWS], full, 16 * BYTES, reader)
        if left or len(lines) > MOST_ROWS:
            raise Refused(
                f"these are {len(lines)} jobs, more than one answer holds ({MOST_ROWS}); "
                "name fewer, or ask for a page"
            )
        return documents
    if after == 0 and len(lines) <= ROWS:
        documents, left = yield from documents_of(loop, lines, full, BYTES, reader)
        if not left:
            return {"jobs": documents, "next": None}
    lines = table.after(after)
    documents, _ = yield from documents_of(loop, lines[:ROWS], full, BYTES, reader)
    more = len(documents) < len(lines)
    return {"jobs": documents, "next": documents[-1].id if more and documents else None}


def paged(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """One page of rows, and the number of all rows. With `all`, the latest jobs come first.

    `own`: also what the client's user has (`own`).
    """
    offset, limit = page(words)
    table = yield from loop.tables.get(loop.scheduler, loop.store, words, uid)
    lines = table.collapsed
    if words.get("all") and not words.get("jobs"):
        lines = lines[::-1]
    documents, _ = yield from documents_of(loop, lines[offset : offset + limit], False, 8 * BYTES)
    mine = (yield from own(loop, uid)) if words.get("own") is True else None
    snapshot = loop.scheduler.snapshot
    return {
        "jobs": documents,
        "total": len(lines),
        "counts": table.counts,
        "now": loop.clock.now().wall_s,
        "devices": {
            each.device.uuid: each.device.index
            for each in snapshot.devices
            if each.occupants or not each.vanished
        },
        "simulated": are_simulated(snapshot),
        "notes": loop.parts.attempts.unmanaged.notes(snapshot),
        **({} if mine is None else {"own": mine}),
    }


_LATELY_S = 86400.0
_MOST_ENDED = 200
"""Jobs of a user that have ended lately and are looked at: the newest."""
_PLACES = 500


def own(loop: Loop, uid: int) -> Work[Document]:
    """What a user would look at first: a job that failed lately, the first one that waits, the
    first one that runs (null: none); the jobs that wait, of all users; how many of the user's
    newest jobs have ended how, in the last day."""
    use, snapshot = loop.scheduler.use_of(uid), loop.scheduler.snapshot
    mine = (Row(job) for job, _ in snapshot.running if job.spec.uid == uid)
    running = list(islice(mine, 1)) if use.running else []
    queued = snapshot.waiting
    waiting = (yield from _first_waiting(snapshot, uid)) if use.queued else []
    ended = loop.store.ended.newest(uid, loop.clock.now().wall_s - _LATELY_S, _MOST_ENDED)
    found: Document = {"queued": queued, "ended": dict(Counter(each.state for each in ended))}
    lines: dict[str, Sequence[Line]] = {
        "failed": _failed(ended),
        "waiting": waiting,
        "running": running,
    }
    for name, line in lines.items():
        documents, _ = yield from documents_of(loop, line, False, BYTES)
        found[name] = documents[0] if documents else None
    return {**found, "hints": loop.parts.hints}


def _first_waiting(snapshot: Snapshot, uid: int) -> Work[list[Row]]:
    """The first job of a user in a line, else one that is skipped."""
    pace = Pace()
    for line in snapshot.lines:
        for at in range(0, len(line), _PLACES):
            for place, job in enumerate(line[at : at + _PLACES], at + 1):
                if job.spec.uid == uid:
                    return [Row(job, place)]
            yield from pace.rest_if_spent()
    return [Row(job) for job in snapshot.aside if job.spec.uid == uid][:1]


def _failed(ended: Sequence[Ended]) -> list[Line]:
    """The newest job that failed, if none of its name has completed since."""
    completed: set[str] = set()
    for each in ended:
        if each.state in _FAILURES and each.name not in completed:
            return [each.id]
        if each.state == JobState.COMPLETED.value:
            completed.add(each.name)
    return []


_FAILURES = (JobState.FAILED.value, JobState.TIMEOUT.value)


def documents_for(loop: Loop) -> JobDocuments:
    """What makes the documents of jobs, with all that the daemon knows of them."""
    more = loop.launcher.controllers, loop.reports, loop.parts.foresight
    return JobDocuments(loop.scheduler, loop.store, *more)


def documents_of(
    loop: Loop,
    lines: Sequence[Line],
    full: bool,
    most_bytes: int,
    reader: int | None = None,
) -> Work[tuple[list[JobDocument], bool]]:
    """The documents of as many lines as fit, at least one, and whether some are left out.

    `full`: each with all fields, not just what a row has. `reader`: the user who also wants what
    was submitted. That is read from the store, so clients that ask again and again do not.
    """
    documents = documents_for(loop)
    if any(isinstance(line, Row) and line.job.state.waiting for line in lines):
        yield from loop.parts.foresight.prepare()
    now, pace = loop.clock.now(), Pace()
    found: list[JobDocument] = []
    for line in lines:
        row = _row(loop, line)
        if row is None:
            continue
        if full:
            document = documents.detailed(row.job, now)
            if reader is not None:
                document = replace(document, **submitted(loop.store, row.job, reader))
        else:
            version = loop.scheduler.snapshot.jobs_version
            document = loop.tables.document(row, version, partial(documents.row, row, now))
        most_bytes -= _size(document)
        if most_bytes < 0 and found:
            return found, True
        found.append(document)
        yield from pace.rest_if_spent()
    return found, False


def _row(loop: Loop, line: Line) -> Row | None:
    """The row of a line, with the job as it is now."""
    if not isinstance(line, Row):
        if isinstance(line, EndedRun):
            job = loop.store.run(line.job_id, line.run)
        else:
            job = loop.store.job(line)
        return Row(job) if job is not None else None
    job = loop.scheduler.snapshot.job(line.job.id)
    if job is line.job:
        return line
    # The job has changed since the table was gathered.
    job = job or loop.store.job(line.job.id)
    return Row(job) if job is not None else None


def _size(document: JobDocument) -> int:
    """Bytes of a document as JSON, roughly: only some texts and lists vary in length."""
    texts = (document.name, document.reason, document.comment)
    notes = sum(len(note) for note in document.estimate_notes)
    given = sum(len(word) for word in (*document.command, *document.options))
    more = 60 * len(document.after) + 200 * len(document.earlier) + given
    return 900 + sum(len(text or "") for text in texts) + notes + more
