"""From what lies in the spool to jobs: read, checked, estimated.

Whatever was acknowledged becomes a job with an id, even where it can never run:
then it is a FAILED one that says why. An array becomes one job per element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from radrm.core.dependencies import unmet
from radrm.core.events import JobSubmitted
from radrm.core.records import ArrayElement, Dependency, Instant, Job, JobSpec
from radrm.core.words import Condition
from radrm.daemon.intake.envelopes import read_envelope, too_large_to_start, user_name
from radrm.daemon.intake.estimation import NOTHING_KNOWN, Told
from radrm.daemon.views.references import Target
from radrm.errors import RadrmError, Refused, StoreError
from radrm.host.storage.spool import Arrival, Envelope
from radrm.jobfile.radfile import JobFile, name_from
from radrm.jobfile.values import Array
from radrm.jobfile.values import Dependency as Wanted


class Knows(Protocol):
    """Tells what is known of a job at once."""

    def told(self, job_file: JobFile, envelope: Envelope, uid: int) -> Told: ...


FindTarget: TypeAlias = Callable[[str], Target]
"""What an id or a ticket means to a job that is to follow it. Raises `Refused`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one submission asks for, read once for all elements of its array."""

    ticket: str
    spec: JobSpec
    told: Told = NOTHING_KNOWN
    after: tuple[Dependency, ...] = ()
    array: Array | None = None
    held: bool = False
    refused: str | None = None

    @property
    def size(self) -> int:
        return 1 if self.array is None else self.array.last - self.array.first + 1

    def events(
        self, done: int, first_id: int, next_id: int, now: Instant
    ) -> Iterator[JobSubmitted]:
        """The jobs from number `done` on; `first_id` is the id of the first of all."""
        for place in range(done, self.size):
            element = None
            if self.array is not None:
                index = self.array.first + place
                element = ArrayElement(first_id, index, self.array.at_once)
            job = Job(
                id=next_id + place - done,
                ticket=self.ticket,
                spec=self.spec,
                submitted=now,
                estimates=self.told.estimates,
                estimating=self.told.estimating,
                fingerprint=self.told.fingerprint,
                after=self.after,
                array=element,
                held=self.held,
            )
            yield JobSubmitted(at=now, job=job, refused=self.refused)


def take_in(arrival: Arrival, envelope: Envelope, estimation: Knows, find: FindTarget) -> Batch:
    """Make jobs of an envelope: what is wrong with it becomes the reason to refuse.

    Raises `StoreError` and what SQLite raises: the store's trouble is not the envelope's.
    """
    user = user_name(arrival.uid)
    try:
        job_file = read_envelope(envelope)
    except RadrmError as error:
        return refused_batch(arrival, envelope, str(error))
    if (reason := too_large_to_start(envelope)) is not None:
        return refused_batch(arrival, envelope, reason)
    known = estimation.told(job_file, envelope, arrival.uid)
    batch = Batch(
        ticket=envelope.ticket,
        spec=job_file.spec(user, arrival.uid),
        told=known,
        array=job_file.options.array,
        held=bool(job_file.options.hold),
    )
    try:
        return replace(batch, after=dependencies(job_file.options.after, find))
    except StoreError:
        raise
    except RadrmError as error:
        return replace(batch, refused=str(error))


def refused_batch(arrival: Arrival, envelope: Envelope, reason: str) -> Batch:
    """One job of its user that can never run, for this reason."""
    spec = JobSpec(name=_stem(envelope), user=user_name(arrival.uid), uid=arrival.uid)
    return Batch(ticket=envelope.ticket, spec=spec, refused=reason)


def dependencies(wanted: tuple[Wanted, ...], find: FindTarget) -> tuple[Dependency, ...]:
    """Those that are still open. Raises `Refused` for one that can never be met."""
    found: dict[Dependency, None] = {}
    for each in dict.fromkeys(wanted):
        condition = Condition(each.condition)
        try:
            target = find(each.job)
        except Refused as error:
            raise Refused(f"--after={each.job}: {error}") from None
        ends = [state for state in target.states if state.final]
        broken = next((state for state in ends if not condition.met_by(state)), None)
        if broken is not None:
            raise Refused(unmet(target.what, broken, condition))
        if len(ends) < len(target.states):
            found[Dependency(target.job_id, condition, target.array)] = None
    return tuple(found)


def _stem(envelope: Envelope) -> str:
    if envelope.command is not None:
        return name_from(envelope.command[0].rsplit("/", 1)[-1])
    return name_from((envelope.file or "job").rsplit("/", 1)[-1].removesuffix(".rad"))
