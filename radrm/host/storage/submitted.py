"""What was submitted, as the store keeps it: envelope, job file, and what was edited since.

Theory of operation. The script of an envelope is parsed once, by the daemon at intake, which
trusts nothing that the client says. The typed result is stored in the same transaction as the
job's row. From then on it rules: launch, estimates, `logs`, `requeue` and `edit` use it, so a
later release that reads options in another way changes no job that was taken in before. An edit
is stored as raw options beside it, once for all jobs of which the same was edited, and is
applied to the typed result; the script is not read again. Only a submission that could not be read
as a job has no typed result: it is read from its envelope each time.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from radrm.errors import BadFile, StoreError
from radrm.host.storage.database import DAMAGE, Database
from radrm.host.storage.schema import digest_of
from radrm.host.storage.spool import Envelope
from radrm.host.storage.submission import here, job_file_in
from radrm.jobfile.options import RawOptions
from radrm.jobfile.radfile import NOTIFY_VARIABLE, JobFile
from radrm.jobfile.sweeps import with_table, with_values

Edits: TypeAlias = Iterable["tuple[int, dict[str, Any]]"]
"""Ids of jobs, and all raw options that were changed since their submission."""


class Submission(Struct, frozen=True):
    """What `uid` submitted: for one job, or for all elements of an array."""

    uid: int
    gid: int
    envelope: Envelope
    parsed: JobFile | None = None
    """The job file as the daemon parsed it at intake."""
    edits: RawOptions = field(default_factory=dict)
    """What was changed since, of the one job that was asked about."""
    values: tuple[tuple[str, str], ...] = ()
    """The parameters of that job, if it is an element of a sweep."""

    def job_file(self, changes: RawOptions | None = None) -> JobFile:
        """The job file of the one job, with what was edited; with `changes`, as if they had been.

        Raises `RadrmError` for one that is of no use.
        """
        found = self.parsed if self.parsed is not None else parse_envelope(self.envelope)
        found = found.edited(self.edits) if self.edits else found
        found = found.edited(changes) if changes else found
        return with_values(found, self.values) if self.values else found


def parse_envelope(envelope: Envelope) -> JobFile:
    """Parse the job file that an envelope carries. Raises `RadrmError` for one that is of no use.

    This is the daemon's one reading of what a client wrote. A moment that the client has not made
    absolute is read in the daemon's zone, as at the time of the submission.
    """
    dated = job_file_in(envelope).dated(
        here(envelope.submitted_s), envelope.file or "job", past=True
    )
    targets = envelope.environment.get(NOTIFY_VARIABLE, "")
    known = dated.with_default_targets(targets).with_summary(envelope.summary)
    return with_table(known, envelope.table)


class Submissions:
    """The tables `submissions`, `blobs` (environments) and `edits`."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._last: tuple[list[Any], tuple[Envelope, JobFile | None]] | None = None
        """The row that was read or written last, and what it says: a job starts soon after it has
        come, and an array's elements have the same."""

    # ------------------------------------------------------------- writing, in a transaction

    def insert(self, submission: Submission) -> None:
        """Store a submission, unless its ticket is known. Environments are stored once each."""
        envelope = submission.envelope
        document = _given(envelope.as_dict())
        environment = json.dumps(document.pop("environment"), sort_keys=True)
        digest = digest_of(environment)
        packed = zlib.compress(environment.encode("ascii"), 1)
        blob = "INSERT OR IGNORE INTO blobs (digest, data) VALUES (?, ?)"
        self._db.execute(blob, (digest, packed))
        del document["ticket"]
        text = json.dumps(document, separators=(",", ":"))
        parsed = submission.parsed
        job_file = _encoded(parsed, envelope) if parsed is not None else None
        row = envelope.ticket, submission.uid, submission.gid, text, job_file, digest
        self._last = [envelope.ticket, text, packed, job_file], (envelope, parsed)
        self._db.execute(
            "INSERT OR IGNORE INTO submissions (ticket, uid, gid, envelope, job_file, environment) "
            "SELECT ?, ?, ?, ?, ?, id FROM blobs WHERE digest = ?",
            row,
        )

    def edit(self, changed: Sequence[tuple[int, dict[str, Any]]]) -> None:
        """Store edits, those that several jobs share once; remove what no job has any more."""
        digests: dict[int, str] = {}
        """By the identity of the options: the elements of an array come with the same ones."""
        before: dict[str, None] = {}
        for job_id, options in changed:
            digest = digests.get(id(options))
            if digest is None:
                text = json.dumps(options, sort_keys=True)
                digest = digests[id(options)] = digest_of(text)
                self._db.execute("INSERT OR IGNORE INTO edits VALUES (?, ?)", (digest, text))
            if (old := self.edits_digest(job_id)) is not None:
                before[old] = None
            self._db.execute("UPDATE jobs SET edits = ? WHERE id = ?", (digest, job_id))
        self._db.execute_many(
            "DELETE FROM edits WHERE digest = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM jobs WHERE edits = ?1)",
            [(digest,) for digest in before],
        )

    # ------------------------------------------------------------- reading

    def of_job(self, job_id: int) -> Submission:
        """A job's submission, with what was edited since. Raises `StoreError`."""
        row = self._db.execute(
            "SELECT ticket, submissions.uid, gid, envelope, data, job_file, options, "
            "CASE WHEN json_valid(record) THEN json_extract(record, '$.array.params') END "
            "FROM jobs JOIN submissions USING (ticket) JOIN blobs ON blobs.id = environment "
            "LEFT JOIN edits ON edits.digest = jobs.edits WHERE jobs.id = ?",
            (job_id,),
        ).fetchone()
        if row is None:
            raise StoreError(f"the store {self._db.path} has no job {job_id}")
        ticket, uid, gid, *texts, options, params = row
        try:
            if self._last is None or self._last[0] != [ticket, *texts]:
                self._last = [ticket, *texts], _read(ticket, *texts)
            envelope, parsed = self._last[1]
            edits = dict(json.loads(options)) if options is not None else {}
            values = tuple((name, value) for name, value in json.loads(params or "[]"))
        except (*DAMAGE, BadFile) as error:
            raise self._db.damaged(f"the submission of job {job_id}", error) from None
        return Submission(uid, gid, envelope, parsed, edits, values)

    def of_ticket(self, ticket: str) -> Submission:
        """What was submitted under this ticket, without edits. Raises `StoreError` for none."""
        query = "SELECT min(id) FROM jobs WHERE ticket = ?"
        (job_id,) = self._db.execute(query, (ticket,)).fetchone()
        found = self.of_job(job_id or 0)
        return Submission(found.uid, found.gid, found.envelope, found.parsed)

    def edits_digest(self, job_id: int) -> str | None:
        """The same for all jobs of which the same was edited; None where nothing was."""
        row = self._db.execute("SELECT edits FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return row[0] if row else None


def _encoded(job_file: JobFile, envelope: Envelope) -> str | None:
    """A job file as JSON, without what its envelope holds already."""
    program = {"script": job_file.script, "argv": job_file.argv}
    document = {**_given(job_file.as_dict()), **program}
    for name in ("summary", "table"):
        document.pop(name, None)
    if job_file.script == envelope.script:
        del document["script"]
    if job_file.argv == (envelope.command or ()):
        del document["argv"]
    try:
        return msgspec.json.encode(document).decode()
    except UnicodeEncodeError:
        return None  # no such text passes the parser; if one did, the envelope is read instead


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields without those that are None or an empty tuple: the defaults of both records."""
    return {name: value for name, value in fields.items() if value not in (None, ())}


def _read(
    ticket: str, text: str, data: bytes, job_file: str | None
) -> tuple[Envelope, JobFile | None]:
    """The envelope, and its job file as it was parsed, of a row."""
    kept = {"ticket": ticket, "environment": json.loads(zlib.decompress(data))}
    envelope = Envelope.from_document({**json.loads(text), **kept})
    return envelope, _decoded(job_file, envelope) if job_file is not None else None


def _decoded(text: str, envelope: Envelope) -> JobFile:
    """A stored job file."""
    document = msgspec.json.decode(text)
    document.setdefault("script", envelope.script)
    document.setdefault("argv", list(envelope.command or ()))
    return msgspec.convert(
        {**document, "summary": envelope.summary, "table": envelope.table}, JobFile
    )
