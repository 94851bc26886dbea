"""Convert an envelope to jobs: parsed, checked, estimated.

Every acknowledged envelope becomes a job with an id. One that can never run becomes a FAILED
job that says why. An array becomes one job per element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias

from msgspec import Struct

from radrm.config import NO_LIMITS, LimitsConfig
from radrm.core.events import Event, JobSubmitted
from radrm.core.lifecycle.followers import unmet
from radrm.core.records import (
    ArrayElement,
    Dependency,
    Instant,
    Job,
    JobSpec,
    OuterJob,
)
from radrm.core.scheduler import Scheduler
from radrm.core.words import Condition
from radrm.daemon.intake.admission import environment_bytes, refuse_job
from radrm.daemon.intake.envelopes import group_name, group_of, too_large_to_start, user_name
from radrm.daemon.intake.estimation import NOTHING_KNOWN, Knowledge
from radrm.daemon.views.references import Removed, Target
from radrm.errors import RadrmError, Refused, StoreError
from radrm.estimators.learning.fingerprint import NEUTRAL
from radrm.host.clock import Clock
from radrm.host.storage.spool import Arrival, Envelope
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission, parse_envelope
from radrm.jobfile.radfile import JobFile, name_of, name_of_file
from radrm.jobfile.relations import AfterOption, ArrayOption, MaxFailsOption
from radrm.jobfile.sweeps import Sweep, array_of, filled_name, sweep_of, with_values
from radrm.structs import replace


class Knows(Protocol):
    """What intake calls on `Estimation`."""

    def known_at_once(self, job_file: JobFile, envelope: Envelope, uid: int) -> Knowledge: ...


class Taker(Protocol):
    """What intake calls on the loop."""

    clock: Clock
    scheduler: Scheduler
    store: Store

    @property
    def broken(self) -> bool: ...

    @property
    def unsaved(self) -> bool: ...

    def process(self, events: Iterable[Event], submissions: Iterable[Submission] = ()) -> None: ...


MOST_AT_ONCE = 1000
"""The limit of an array with `--max-fails` that has no other: all that are in the queue leave it
when the array stops, in one step."""

Values: TypeAlias = "tuple[tuple[str, str], ...]"
"""The parameters of an element of a sweep, by name."""

FindTarget: TypeAlias = Callable[[str], Target]
"""Finds the job or array of an id or ticket in `--after`. Raises `Refused`."""


class Batch(Struct, frozen=True):
    """What one submission asks for, read once for all elements of its array."""

    ticket: str
    spec: JobSpec
    known: Knowledge = NOTHING_KNOWN
    after: tuple[Dependency, ...] = ()
    array: ArrayOption | None = None
    sweep: ParsedSweep | None = None
    max_fails: MaxFailsOption | None = None
    held: bool = False
    refused: str | None = None
    outer: OuterJob | None = None
    parsed: JobFile | None = None
    """Its job file; None if that cannot be read."""

    @property
    def size(self) -> int:
        return 1 if self.array is None else len(self.array.indices)

    def events(
        self, done: int, first_id: int, next_id: int, now: Instant
    ) -> Iterator[JobSubmitted]:
        """The events for the elements from number `done` on, with ids from `next_id` on.

        `first_id` is the id of the first element.
        """
        for place in range(done, self.size):
            spec, known = self.spec, self.known
            element = self._element(first_id, place)
            if self.sweep is not None and element is not None:
                spec, known = self.sweep.of(spec, element.params)
            job = Job(
                id=next_id + place - done,
                ticket=self.ticket,
                spec=spec,
                submitted=now,
                estimates=known.estimates,
                estimating=known.estimating,
                fingerprint=known.fingerprint,
                profile=known.profile,
                after=self.after,
                array=element,
                held=self.held,
                outer=self.outer,
            )
            yield JobSubmitted(at=now, job=job, refused=self.refused)

    def _element(self, array_id: int, place: int) -> ArrayElement | None:
        """The array's element at this place; None for a job that is no array."""
        if self.array is None:
            return None
        fails, at_once = self.max_fails, self.array.at_once
        if fails is not None and at_once is None:
            at_once = MOST_AT_ONCE
        return ArrayElement(
            array_id,
            self.array.indices[place],
            at_once,
            () if self.sweep is None else self.sweep.values.values(place),
            None if fails is None else fails.count,
            None if fails is None else fails.within_s,
        )


class ParsedSweep:
    """The values of a sweep, and what is known of the elements that have them."""

    def __init__(self, values: Sweep, name: str, knows: Callable[[Values], Knowledge]) -> None:
        self.values = values
        self._name = name
        self._knows = knows
        self._known: dict[Values, Knowledge] = {}
        """By the values that decide what a job needs: most sweeps differ in others only."""

    def of(self, spec: JobSpec, values: Values) -> tuple[JobSpec, Knowledge]:
        """The name of an element with these values filled in, and what is known of its needs."""
        matter = tuple(pair for pair in values if pair[0].replace("_", "-") not in NEUTRAL)
        if matter not in self._known:
            self._known[matter] = self._knows(values)
        if "{" in self._name:
            spec = replace(spec, name=filled_name(self._name, dict(values)))
        return spec, self._known[matter]


def take_in(
    arrival: Arrival,
    envelope: Envelope,
    estimation: Knows,
    find: FindTarget,
    parsed: JobFile | None = None,
    limits: LimitsConfig = NO_LIMITS,
    outer_of: Callable[[Envelope, int], OuterJob | None] | None = None,
) -> Batch:
    """Convert an envelope to a batch of jobs. An error in it becomes the reason of refusal.

    `outer_of` finds the job of Slurm in which a job runs.

    `parsed` is its job file, if an earlier slice of its array has stored that: then the user's
    `limits` have admitted it. Raises
    `StoreError` and SQLite's errors, because a failing store is no error of the envelope.
    """
    user = user_name(arrival.uid)
    try:
        outer = None if outer_of is None else outer_of(envelope, arrival.uid)
        job_file = parsed if parsed is not None else parse_envelope(envelope)
    except RadrmError as error:
        return refused_batch(arrival, envelope, str(error))
    if (reason := too_large_to_start(envelope)) is not None:
        return refused_batch(arrival, envelope, reason)
    if parsed is None and (reason := _beyond(limits, job_file, envelope)) is not None:
        return refused_batch(arrival, envelope, reason)
    if outer is not None:
        return _inside(arrival, envelope, job_file, outer, estimation)
    sweep, known = None, NOTHING_KNOWN
    if (values := sweep_of(job_file)) is not None:
        sweep = ParsedSweep(
            values,
            job_file.name,
            lambda own: estimation.known_at_once(with_values(job_file, own), envelope, arrival.uid),
        )
        # An error of an estimator is met here, where it makes a FAILED job.
        known = sweep.of(JobSpec("", user, arrival.uid), values.values(0))[1]
    else:
        known = estimation.known_at_once(job_file, envelope, arrival.uid)
    group = group_name(group_of(arrival.uid, arrival.gid))
    batch = Batch(
        ticket=envelope.ticket,
        spec=replace(job_file.spec(user, arrival.uid), group=group),
        known=known,
        array=array_of(job_file),
        sweep=sweep,
        max_fails=job_file.options.max_fails,
        held=bool(job_file.options.hold),
        parsed=job_file,
    )
    try:
        return replace(batch, after=dependencies(job_file.options.after, find))
    except StoreError:
        raise
    except RadrmError as error:
        return replace(batch, refused=str(error))


def _inside(
    arrival: Arrival, envelope: Envelope, job_file: JobFile, outer: OuterJob, estimation: Knows
) -> Batch:
    """The job that runs in a job of Slurm. Slurm has seen to arrays, dependencies and `--begin`."""
    if sweep_of(job_file) is not None:
        why = f"a sweep does not go into {outer.label}; make one Slurm job for each job"
        return refused_batch(arrival, envelope, why)
    group = group_name(group_of(arrival.uid, arrival.gid))
    spec = job_file.spec(user_name(arrival.uid), arrival.uid)
    return Batch(
        ticket=envelope.ticket,
        spec=replace(spec, group=group, begin_s=None),
        known=estimation.known_at_once(job_file, envelope, arrival.uid),
        parsed=job_file,
        outer=outer,
    )


def _beyond(limits: LimitsConfig, job_file: JobFile, envelope: Envelope) -> str | None:
    """Which limit of its user a submission exceeds; None if none."""
    array, size = array_of(job_file), environment_bytes(envelope.environment)
    elements = 1 if array is None else len(array.indices)
    return refuse_job(limits, job_file.options.priority or 0, elements, size)


def refused_batch(arrival: Arrival, envelope: Envelope, reason: str) -> Batch:
    """A batch of one job that can never run, for this reason."""
    spec = JobSpec(name=_name(envelope), user=user_name(arrival.uid), uid=arrival.uid)
    return Batch(ticket=envelope.ticket, spec=spec, refused=reason)


def dependencies(wanted: tuple[AfterOption, ...], find: FindTarget) -> tuple[Dependency, ...]:
    """The dependencies that are not met yet. Raises `Refused` for one that can never be met."""
    found: dict[Dependency, None] = {}
    for each in dict.fromkeys(wanted):
        condition = Condition(each.condition)
        try:
            target = find(each.job)
        except Removed as error:
            if condition is Condition.ANY:
                continue
            raise Refused(f"--after={each.job}: {error}") from None
        except Refused as error:
            raise Refused(f"--after={each.job}: {error}") from None
        ends = [state for state in target.states if state.final]
        broken = next((state for state in ends if not condition.met_by(state)), None)
        if broken is not None:
            raise Refused(unmet(target.what, broken, condition))
        if len(ends) < len(target.states):
            found[Dependency(target.job_id, condition, target.array)] = None
    return tuple(found)


def _name(envelope: Envelope) -> str:
    if envelope.command is not None:
        return name_of(envelope.command)
    return name_of_file(envelope.file or "job")
