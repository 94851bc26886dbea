"""One job put to the estimators: their answers, how long each took, and what went wrong.

The same in the daemon's worker and in `radrm estimate`.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace

from radrm.config import Config
from radrm.core.records import Estimate
from radrm.core.rules import Description, Estimator
from radrm.errors import RadrmError, plain
from radrm.estimators.traced import Traced
from radrm.wiring import Estimating, make_estimating

MAX_NOTE = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """What the estimators say, and why one of them says nothing, in words for the user."""

    estimates: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Timed:
    """An estimator whose answers say how many seconds they took."""

    inner: Estimator
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.inner.name

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        begun = time.perf_counter()
        told = self.inner.estimate(job)
        seconds = time.perf_counter() - begun
        return tuple(replace(e, seconds=e.seconds or seconds) for e in told)


@dataclass(slots=True)
class Asking:
    """The estimators of a configuration, ready to be asked again and again."""

    config: Config
    notes: list[str] = field(default_factory=list)
    _estimating: Estimating = field(init=False)

    def __post_init__(self) -> None:
        self._estimating = make_estimating(self.config, Timed, self._complain)

    def _complain(self, name: str, error: Exception) -> None:
        self.notes.append(note_on(name, error))

    def ask(self, job: Description, events: bytes | None = None) -> Answer:
        """Never raises for what a job or an estimator is like. `events`: what the tracer wrote."""
        self.notes = []
        if events is not None:
            job, trouble = with_trace(job, events)
            self.notes += [trouble] if trouble else []
        try:
            estimates = self._estimating.estimate(job)
        except Exception as error:  # a third party's estimator may raise anything
            self.notes.append(note_on(self.config.estimator, error))
            estimates = self.at_once(job)
        return Answer(estimates, tuple(self.notes))

    def at_once(self, job: Description) -> tuple[Estimate, ...]:
        """What the job file and the store say."""
        return self._estimating.at_once(job)


def with_trace(job: Description, events: bytes) -> tuple[Description, str | None]:
    """The job with what the tracer wrote of it, or why that cannot be used."""
    try:
        document = json.loads(events)
        return replace(job, trace=Traced.from_events(document, job.device_kind).to_text()), None
    except (RadrmError, ValueError, RecursionError) as error:
        return job, plain(f"trace: {error}")[:MAX_NOTE]


def note_on(name: str, error: Exception) -> str:
    """One line on an estimator that broke."""
    what = str(error) if isinstance(error, RadrmError) else f"{type(error).__name__}: {error}"
    return plain(f"{name}: {what}")[:MAX_NOTE]
