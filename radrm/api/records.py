"""What `Client` returns: records that do not change.

They are the JSON documents (`radrm.documents`) with what programs ask of them: each field is there,
and has its default where the document leaves it out. `document` is the document itself. `None`
means unknown or not applicable, never zero. Names, reasons and labels may be other users' text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from radrm.client.awaiting import exit_code
from radrm.client.text import FINAL, LIVE
from radrm.documents import jobs, server
from radrm.documents.base import Document
from radrm.errors import RadrmError, plain


class Job(jobs.Job):
    """A job, or one element of an array, when the daemon was asked."""

    @property
    def ended(self) -> bool:
        """Whether the job has ended, well or not."""
        return self.state in FINAL

    @property
    def running(self) -> bool:
        """Whether the job has an attempt: it is launched, runs, or is being stopped."""
        return self.state in LIVE

    @property
    def completed(self) -> bool:
        """Whether the job has ended well."""
        return self.state == "COMPLETED"

    @property
    def code(self) -> int | None:
        """The exit code of `radrm wait`: the job's own; 124 after its time limit, 125 if it was
        lost or never started, 1 if it was cancelled. None: it has not ended."""
        return exit_code(self.document) if self.ended else None

    def __hash__(self) -> int:
        return hash((self.id, self.state))


class Gpu(server.Gpu):
    """A GPU or MIG instance, as it was read last."""


class Result(jobs.Result):
    """What a command did to one job. `error` None: it was carried out."""


class Preview(jobs.Understood):
    """What a submission would be (`dry_run=True`)."""


class Estimate(server.Estimate):
    """What an estimator says of a job."""


class Explanation(jobs.Explanation):
    """Why a job waits, or where and how it ran."""

    job: Job
    """The job."""


class Submission(Struct, frozen=True):
    """A job or an array that is safe on disk."""

    ticket: str
    id: int | None
    """The job's or array's number; None if no daemon runs yet."""
    name: str
    count: int
    """The number of jobs: more than 1 only for an array."""
    notes: tuple[str, ...]
    """What a user should know, in a line each."""


class JobFailed(RadrmError):
    """A job ended without a result: out of memory, at its time limit, lost, killed...

    `job` is the job as it ended, None if the daemon does not know it any more.
    """

    def __init__(self, text: str, job: Job | None) -> None:
        super().__init__(text)
        self.job = job

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.job)

    @classmethod
    def of(cls, job: Job) -> JobFailed:
        """The failure of a job, in one line: how it ended, why, and what its next run needs."""
        why = f": {job.reason}" if job.reason else ""
        advice = "".join(f"; {each}" for each in job.verdict)
        line = f"job {job.label} ({job.name}) {job.state}{why}{advice}"
        return cls(plain(f"{line}; see radrm logs {job.label}"), job)


Reference = int | str | Job | Submission
"""What names jobs: a number, a label (`12_3`), a ticket, a name, a glob (`sweep-*`), a record."""


def reference_of(job: Reference) -> str:
    """The word by which the daemon knows a job. An element is named by its label, because the
    number of the first element is the number of its array, too."""
    if isinstance(job, Job):
        return job.label
    if isinstance(job, Submission):
        return str(job.id) if job.id is not None else job.ticket
    return str(job)


R = TypeVar("R", bound=Document)


def record(kind: type[R], document: Mapping[str, Any]) -> R:
    """A record of a document. Raises `RadrmError` for one of another release."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise RadrmError(f"the daemon's answer is not that of this release: {error}") from error
