"""Asks the estimators about one job: their answers, the time of each, and their errors.

The daemon's worker and `radrm estimate` both use it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from msgspec import Struct

from radrm.config import Config
from radrm.core.records import DECLARED, Estimate
from radrm.core.units import WHOLE_DEVICE_MIB, show_mib
from radrm.core.words import Quantity
from radrm.errors import RadrmError, plain
from radrm.estimators.interface import Description, Estimator
from radrm.estimators.script import step_after
from radrm.estimators.traces import NoStep, Traced
from radrm.structs import replace
from radrm.wiring import Estimating, make_estimating

TRACE, SCRIPT = "trace", "script"
"""The estimators for which a job is traced: its factory, or its whole command."""
MAX_NOTE = 300
LARGEST_GPU_MIB = 2**20
"""More than any GPU has."""


class Answer(Struct, frozen=True):
    """The estimates, and for the user the reasons why estimators gave none. `trace` is the text of
    a trace that was made from the tracer's document, None without one."""

    estimates: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    trace: str | None = None


@dataclass(slots=True)
class Timed:
    """An estimator whose estimates state the seconds that they took."""

    inner: Estimator
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.inner.name

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        begun = time.perf_counter()
        estimates = self.inner.estimate(job)
        seconds = time.perf_counter() - begun
        return tuple(replace(e, seconds=e.seconds or seconds) for e in estimates)


@dataclass(slots=True)
class Asking:
    """The estimators of a configuration, for any number of jobs. `summaries`: these may have a
    model's summary."""

    config: Config
    summaries: bool = True
    notes: list[str] = field(default_factory=list)
    _estimating: Estimating = field(init=False)

    def __post_init__(self) -> None:
        self._estimating = make_estimating(self.config, Timed, self._note_failure, self.summaries)

    def _note_failure(self, name: str, error: Exception) -> None:
        self.notes.append(note_on(name, error))

    def ask(self, job: Description, events: bytes | None = None, source: str = TRACE) -> Answer:
        """The estimates of a job. `events` is the tracer's document, None if it was not traced;
        `source`: the estimator for which it was.

        No job and no estimator makes it raise.
        """
        self.notes = []
        trace = None
        if events is not None:
            job, cause = with_trace(job, events, source)
            self.notes += [cause] if cause else []
            trace = job.trace if cause is None else None
        try:
            estimates = self._estimating.estimate(job)
        except Exception as error:  # a third party's estimator may raise anything
            self.notes.append(note_on(self.config.estimator, error))
            estimates = self.at_once(job)
        return Answer(tuple(map(self._clamped, estimates)), tuple(self.notes), trace)

    def _clamped(self, found: Estimate) -> Estimate:
        """A prediction of memory beyond any GPU means a whole one, of any size."""
        most = max(found.value, found.upper)
        beyond = LARGEST_GPU_MIB < most < WHOLE_DEVICE_MIB
        if found.quantity is not Quantity.MEMORY or found.source == DECLARED or not beyond:
            return found
        self.notes.append(
            f"{found.source}: {show_mib(most)} is more than any GPU has, so the job gets a whole "
            "GPU alone; check --batch-size, --input-shape and --sequence-length"
        )
        whole = float(WHOLE_DEVICE_MIB)
        value = whole if found.value > LARGEST_GPU_MIB else found.value
        return replace(found, value=value, upper=whole)

    def at_once(self, job: Description) -> tuple[Estimate, ...]:
        """The estimates that need no computation: from the job file and from past runs."""
        return self._estimating.at_once(job)


def with_trace(
    job: Description, events: bytes, source: str = TRACE
) -> tuple[Description, str | None]:
    """The job with its trace, or the job as it is and the reason why the trace is unusable.

    `source`: the estimator for which it was made.
    """
    try:
        document = json.loads(events)
        return replace(job, trace=Traced.from_events(document, job.device_kind).to_text()), None
    except NoStep as error:
        return job, failed(source, str(error) if source == TRACE else error.cause)
    except (RadrmError, ValueError, RecursionError) as error:
        return job, failed(source, str(error))


def failed(source: str, cause: str) -> str:
    """One line about a trace that gave no estimate: the cause, and what its user can do."""
    if source != SCRIPT:
        return plain(f"{source}: {cause}")[:MAX_NOTE]
    before, _, last = cause.rpartition("; ")
    if "--gpu-memory" in last:
        cause = before  # the step of every cause: there may be a better one for this one
    step = f"; {step_after(cause)}"
    return plain(f"{source}: {cause}")[: MAX_NOTE - len(step)] + step


def note_on(name: str, error: Exception) -> str:
    """One line about an estimator that failed."""
    what = str(error) if isinstance(error, RadrmError) else f"{type(error).__name__}: {error}"
    return plain(f"{name}: {what}")[:MAX_NOTE]
