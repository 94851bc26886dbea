"""What `Client` returns: records that do not change.

`None` means unknown or not applicable, never zero. Units are in the names, as in radrm.schema.json:
`_s` seconds, `_at` seconds since the epoch by the daemon's clock, `_mib` MiB. `document` is the
whole JSON document. Names, reasons and labels may be other users' text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from radrm.client.exits import exit_code
from radrm.client.states import FINAL, LIVE
from radrm.errors import RadrmError, plain

Document = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record that was made from a JSON document of the daemon."""

    document: Document = field(compare=False, repr=False)


R = TypeVar("R", bound=Record)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


def _of(cls: type[R], source: Document, **more: Any) -> R:
    """A record of the fields that its class names, and the document itself."""
    names = [each.name for each in fields(cls)]
    found = {name: _frozen(source.get(name)) for name in names}
    return cls(**found | {"document": source} | more)


@dataclass(frozen=True, kw_only=True)
class Job(Record):
    """A job, or one element of an array, when the daemon was asked."""

    id: int
    label: str
    """What people type: `12`, or `12_3` for an element of an array."""
    ticket: str
    name: str
    user: str
    state: str
    """PENDING, LAUNCHING, RUNNING, STOPPING, RECOVERING; in the end COMPLETED, FAILED, TIMEOUT or
    CANCELLED."""
    outcome: str | None
    """How its last attempt ended: completed, failed, oom, timeout, cancelled, preempted or lost."""
    reason: str | None
    """Why it waits, or why it ended."""
    exit_code: int | None
    """Of the last attempt; 128+n for signal n."""
    attempts: int
    devices: tuple[str, ...]
    """The UUIDs of the GPUs of its last attempt."""
    gpus: int
    priority: int
    held: bool
    position: int | None
    """Its place in its line, 1 for the first."""
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    expected_start_at: float | None
    waited_s: float | None
    ran_s: float | None
    estimate_mib: int | None
    reserved_mib: int | None
    """Memory reserved on each of its GPUs now."""
    peak_mib: int | None
    """Its largest memory on one GPU, in its last attempt."""
    array_id: int | None
    array_index: int | None
    comment: str | None
    verdict: tuple[str, ...]
    """Of an ended job: what the next one like it should ask for."""
    params: Mapping[str, str] | None = field(compare=False)

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
        return exit_code(dict(self.document)) if self.ended else None


@dataclass(frozen=True, kw_only=True)
class Gpu(Record):
    """A GPU or MIG instance, as it was read last."""

    uuid: str
    index: int
    name: str
    kind: str
    state: str
    """idle, busy, others (processes that radrm did not start), drained, unreadable, unhealthy or
    vanished."""
    reason: str | None
    total_mib: int
    used_mib: int | None
    free_mib: int | None
    """What a new job could reserve."""
    reserved_mib: int
    unmanaged_mib: int | None
    smact: float | None
    """SM activity, 0..1."""
    power_w: float | None
    labels: tuple[str, ...]
    """The labels of the jobs on it."""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Result(Record):
    """What a command did to one job. `error` None: it was carried out."""

    id: int | str
    label: str
    name: str | None
    state: str | None
    """Before the command."""
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Explanation(Record):
    """Why a job waits, or where and how it ran."""

    job: Job
    summary: str | None
    ahead: int | None
    """The jobs before it in its line."""
    reasons: tuple[str, ...]
    """Why it waits, apart from single GPUs."""
    gpus: Mapping[int, str | None]
    """For each GPU, by index, why it does not take the job now; None: it would."""


@dataclass(frozen=True)
class Submission:
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


def job_of(document: Document) -> Job:
    return _of(Job, document, verdict=tuple(document.get("verdict") or ()))


def gpu_of(document: Document) -> Gpu:
    return _of(Gpu, document)


def result_of(document: Document) -> Result:
    return _of(Result, document)


def explanation_of(document: Document) -> Explanation:
    reasons = tuple(str(each["message"]) for each in document["reasons"] if each["message"])
    gpus = {each["index"]: each["message"] for each in document["devices"]}
    job = job_of(document["job"])
    return _of(Explanation, document, job=job, reasons=reasons, gpus=gpus)
