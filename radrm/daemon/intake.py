"""From what lies in the spool to a job: read, checked, estimated.

Whatever was acknowledged becomes a job with an id, even where it can never run:
then it is a FAILED one that says why.
"""

from __future__ import annotations

import logging
import pwd
from dataclasses import dataclass, replace

from radrm.core.events import JobSubmitted
from radrm.core.records import Estimate, Instant, Job, JobSpec
from radrm.errors import RadrmError
from radrm.host.spool import Arrival, Envelope
from radrm.host.store import Intake
from radrm.radfile import JobFile, read_job_file, wrap_command
from radrm.wiring import Estimating

log = logging.getLogger("radrm")


@dataclass(frozen=True, slots=True)
class Taken:
    """A submission as an event for `step` and a row for the store."""

    event: JobSubmitted
    intake: Intake


def read_envelope(envelope: Envelope) -> JobFile:
    """The job file that was submitted. Raises `RadrmError` for one that cannot be used."""
    if envelope.command is not None:
        job_file = wrap_command(list(envelope.command), envelope.options)
    else:
        data = (envelope.script or "").encode("utf-8", "surrogateescape")
        job_file = read_job_file(data, envelope.file or "job", envelope.options)
    return replace(job_file, summary=envelope.summary)


def take_in(
    arrival: Arrival, envelope: Envelope, job_id: int, now: Instant, estimating: Estimating
) -> Taken:
    """Make a job of an envelope. Never raises: what is wrong becomes the job's reason."""
    user = user_name(arrival.uid)
    refused: str | None = None
    estimates: tuple[Estimate, ...] = ()
    try:
        job_file = read_envelope(envelope)
        spec = job_file.spec(user, arrival.uid)
        estimates = _estimate(estimating, job_file, job_id)
    except RadrmError as error:
        refused = str(error)
        spec = JobSpec(name=_stem(envelope), user=user, uid=arrival.uid)
    job = Job(id=job_id, ticket=envelope.ticket, spec=spec, submitted=now, estimates=estimates)
    return Taken(
        event=JobSubmitted(at=now, job=job, refused=refused),
        intake=Intake(job_id=job_id, uid=arrival.uid, gid=arrival.gid, envelope=envelope),
    )


def _estimate(estimating: Estimating, job_file: JobFile, job_id: int) -> tuple[Estimate, ...]:
    try:
        return estimating.estimate(job_file)
    except Exception as error:  # a third party's estimator may raise anything
        log.warning("job %d is not estimated: %s: %s", job_id, type(error).__name__, error)
        return ()


def _stem(envelope: Envelope) -> str:
    if envelope.command is not None:
        return envelope.command[0].rsplit("/", 1)[-1][:100] or "job"
    return (envelope.file or "job").rsplit("/", 1)[-1].removesuffix(".rad")[:100] or "job"


def user_name(uid: int) -> str:
    """The login name, or the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
