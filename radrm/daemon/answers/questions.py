"""What anybody may ask. A question changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from radrm.core.records import Device, Instant, Job, JobSpec, Needs, Role
from radrm.core.words import Collocation
from radrm.daemon.intake.envelopes import read_envelope
from radrm.daemon.intake.estimation import SAME_RUNS
from radrm.daemon.launching import log_paths
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.asked import MAX_REFERENCES, Words, cursor, page, references
from radrm.daemon.views.documents import Document, Documents, Row
from radrm.daemon.views.explanations import Explanations
from radrm.daemon.views.references import References
from radrm.daemon.views.tables import Line
from radrm.errors import Refused, UsageError
from radrm.estimators.learned import MOST_RUNS
from radrm.host.clock import Clock

ROWS = 500
BYTES = 2**20
"""Of one page of a long answer, roughly: whatever comes first."""
MOST_ROWS = 2000
"""Of an answer to a client that does not take it in pages."""

Question = Callable[[Loop, Words, int], Any]
"""The words, and the uid of whoever asks; the answer, or the work that leads to it."""


# ------------------------------------------------------------------ jobs


def status(loop: Loop, words: Words, uid: int) -> Work[list[Document] | Document]:
    """Every job asked for, each in full.

    A client that names where it stands (`after`) gets so many at a time, by id, and where the
    next begin; all at once, in order of service, if they are few.
    """
    after = cursor(words)
    table = yield from loop.tables.of(loop.scheduler, loop.store, words, uid)
    lines, in_full = table.lines, bool(words.get("jobs"))
    if after is None:
        documents, left = yield from _documents(loop, lines[:MOST_ROWS], in_full, 16 * BYTES)
        if left or len(lines) > MOST_ROWS:
            raise Refused(
                f"these are {len(lines)} jobs, more than one answer holds ({MOST_ROWS}); "
                "name fewer, or use the radrm of the daemon's version, which asks in pages"
            )
        return documents
    if after == 0 and len(lines) <= ROWS:
        documents, left = yield from _documents(loop, lines, in_full, BYTES)
        if not left:
            return {"jobs": documents, "next": None}
    lines = table.after(after)
    documents, _ = yield from _documents(loop, lines[:ROWS], in_full, BYTES)
    more = len(documents) < len(lines)
    return {"jobs": documents, "next": documents[-1]["id"] if more and documents else None}


def _documents(
    loop: Loop, lines: Sequence[Line], in_full: bool, most_bytes: int
) -> Work[tuple[list[Document], bool]]:
    """The documents of as many lines as fit, one at least; whether any are left out."""
    documents, now, pace = Documents(loop.scheduler, loop.store), loop.clock.now(), Pace()
    found: list[Document] = []
    for line in lines:
        row = _row(loop, line)
        if row is None:
            continue
        document = documents.one(row.job, now) if in_full else documents.row(row, now)
        most_bytes -= _size(document)
        if most_bytes < 0 and found:
            return found, True
        found.append(document)
        if pace.spent:
            yield from pace.rest()
    return found, False


def _row(loop: Loop, line: Line) -> Row | None:
    if isinstance(line, int):
        job = loop.store.job(line)
        return Row(job) if job is not None else None
    job = loop.scheduler.state.jobs.get(line.job.id)
    if job is line.job:
        return line
    # It has changed while others had their turn.
    job = job or loop.store.job(line.job.id)
    return Row(job) if job is not None else None


def _size(document: Document) -> int:
    """Bytes, roughly: a few texts and lists are of any length."""
    texts = (document["name"], document["reason"], document["comment"])
    notes = sum(len(note) for note in document["estimate_notes"])
    return 900 + sum(len(text or "") for text in texts) + notes + 60 * len(document["after"])


def paged(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """As many rows as people can read, and how many there are; of all jobs, the latest first."""
    offset, limit = page(words)
    table = yield from loop.tables.of(loop.scheduler, loop.store, words, uid)
    lines = table.collapsed
    if words.get("all") and not words.get("jobs"):
        lines = lines[::-1]
    documents, _ = yield from _documents(loop, lines[offset : offset + limit], False, 8 * BYTES)
    devices = sorted((le.device for le in loop.scheduler.state.ledgers.values()), key=_index)
    return {
        "jobs": documents,
        "total": len(lines),
        "counts": table.counts,
        "now": loop.clock.now().wall_s,
        "devices": {device.uuid: device.index for device in devices},
        "notes": loop.parts.strangers.notes(loop.scheduler.state),
    }


def _index(device: Device) -> tuple[str, int]:
    return device.node, device.index


def explain(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """Why a job waits, or where and how it ran."""
    job = yield from _one(loop, words, uid)
    return Explanations(loop.scheduler, loop.store).of(job, loop.clock.now())


def logs(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """Where an attempt's logs are; the client opens them itself, as who it is."""
    job = yield from _one(loop, words, uid)
    if job.attempts == 0 and job.state.final:
        raise Refused(f"job {job.label} never started ({job.state.value}: {job.reason})")
    if job.attempts == 0:
        raise Refused(f"job {job.label} has not started yet, so it has no log")
    number = words.get("attempt") or job.attempts
    if type(number) is not int or not 1 <= number <= job.attempts:
        raise Refused(f"job {job.label} has attempts 1 to {job.attempts}, not {number!r}")
    envelope = loop.store.submission(job.id).envelope
    options = read_envelope(envelope).options
    cwd = os.path.join(envelope.cwd, options.chdir or "")
    stdout, stderr = log_paths(job, number, options, cwd)
    return {
        "id": job.id,
        "stdout": stdout,
        "stderr": stderr,
        "attempt": number,
        "live": job.state.live and number == job.attempts,
        "final": job.state.final,
    }


def _one(loop: Loop, words: Words, uid: int) -> Work[Job]:
    named = references(words)
    if len(named) != 1:
        raise UsageError("this request takes one job")
    return (yield from References(loop.scheduler, loop.store, uid).one(named[0]))


def runs(loop: Loop, words: Words, uid: int) -> Document:
    """What has been learned here: the asker's own runs of the very same thing, and, without a
    word on whose they were, the latest runs of all."""
    mark = words.get("fingerprint")
    if mark is not None and (not isinstance(mark, str) or len(mark) > 64):
        raise UsageError("the request takes a fingerprint")
    kind = loop.scheduler.device_kind()
    same = loop.store.same_runs(mark, uid, SAME_RUNS) if mark is not None else ()
    recent = loop.store.recent_runs(kind, MOST_RUNS)
    return {
        "device_kind": kind,
        "driver": loop.parts.estimation.driver,
        "contexts": loop.parts.estimation.contexts(uid),
        "same": [asdict(run) for run in same],
        "recent": [asdict(run) for run in recent],
    }


# ------------------------------------------------------------------ the server


def gpus(loop: Loop, words: Words, uid: int) -> list[Document]:
    """The devices; of strangers also what has been done about them, where anything has."""
    now, told = loop.clock.now(), loop.parts.strangers.told
    documents = Documents(loop.scheduler, loop.store).devices(now)
    for document in documents:
        document["strangers"] = [s | told(s["pid"], now.boot_s) for s in document["strangers"]]
    return documents


def health(loop: Loop, words: Words, uid: int) -> Document:
    """What `radrm doctor` asks: all that may be wrong, at once."""
    return {
        "devices": gpus(loop, words, uid),
        "mps": mps(loop, words, uid),
        "strangers": loop.parts.strangers.action,
        "uid": os.getuid(),
        "clock_moved_s": _clock_moved_s(loop.clock),
        "rules": list(loop.scheduler.troubles(loop.clock.now())),
    }


def _clock_moved_s(clock: Clock) -> float | None:
    """By how much the date was set since the daemon started: time since boot knows nothing of
    that. None on a clock that runs faster than time does."""
    if clock.scale != 1.0:
        return None
    now = clock.now()
    return (now.wall_s - clock.anchor_wall_s) - (now.boot_s - clock.anchor_boot_s)


def mps(loop: Loop, words: Words, uid: int) -> list[Document]:
    """A row for each MPS control daemon; the clients with the jobs that they belong to."""
    service, owner_of = loop.parts.site.mps, loop.parts.launcher.owner_of
    rows = service.rows() if service is not None else []
    for row in rows:
        for server in row["servers"]:
            owners = [(pid, owner_of(pid)) for pid in server["clients"]]
            server["clients"] = [{"pid": pid, "job": o[0] if o else None} for pid, o in owners]
    return rows


def check(loop: Loop, words: Words, uid: int) -> Work[list[str | None]]:
    """Why each of these needs can never be met here; null where it can."""
    needs = words.get("needs")
    if not isinstance(needs, list) or len(needs) > MAX_REFERENCES:
        raise UsageError("the request 'check' takes a list of needs")
    found, pace = [], Pace()
    for each in needs:
        found.append(loop.scheduler.hopeless(_imagined(each)))
        if pace.spent:
            yield from pace.rest()
    return found


def _imagined(needs: Any) -> Job:
    """A job with these needs, to ask the core about; it is never submitted."""
    try:
        spec = JobSpec(
            name="",
            user="",
            uid=-1,
            collocation=Collocation(needs.get("collocation") or "auto"),
            roles=(
                Role(
                    needs=Needs(
                        gpus=int(needs["gpus"]),
                        gpu_memory_mib=_whole(needs.get("gpu_memory_mib")),
                        mig_profile=needs.get("mig_profile"),
                    )
                ),
            ),
        )
        return Job(id=0, ticket="", spec=spec, submitted=Instant(0.0, 0.0))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise UsageError(f"these needs cannot be read: {error}") from None


def _whole(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise ValueError("a size is a whole number of MiB")
    return value


QUESTIONS: dict[str, Question] = {
    "status": status,
    "page": paged,
    "explain": explain,
    "runs": runs,
    "logs": logs,
    "gpus": gpus,
    "health": health,
    "mps": mps,
    "check": check,
}
