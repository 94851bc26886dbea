"""The estimates of a trace's jobs: from its columns, or drawn from known errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil, exp, inf
from random import Random
from typing import Any

from msgspec import Struct

from radrm.config import Config
from radrm.core.decision import Decision
from radrm.core.records import DECLARED, Attempt, Estimate, Job, JobSpec, Profiled
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Outcome, Quantity
from radrm.errors import UsageError
from radrm.estimators.history import LATEST, History
from radrm.estimators.interface import Description, Estimator, PastRun
from radrm.estimators.learning.contention import alone
from radrm.estimators.learning.learned import ERRORS_SEEN, MOST_RUNS
from radrm.estimators.learning.ratios import told_of, trusted
from radrm.lab.simulator.scenario import AUTO, Known
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import SimulatedDevice
from radrm.structs import replace
from radrm.wiring import AUTO_CHAIN, make_auto

AS_DECLARED = ("oracle", DECLARED)
NONE = "none"
_FROM_TRACE = "trace file"
_95_PERCENT = 1.645
"""So many standard deviations of a normal distribution lie below its 95 % quantile."""
_FAILED_MIB = 40000
"""The prototype writes this if the estimator failed or found more than the device has."""


def estimate_of(
    job: TraceJob, estimator: str, errors: Sequence[float] | None, rng: Random
) -> float | None:
    """Return the estimate in MiB per GPU. None: the estimator gives none.

    `errors` are the ratios of `errors_of`.
    """
    if estimator in AS_DECLARED:
        return job.memory_mib
    if errors is not None:
        return job.memory_mib / rng.choice(errors)
    return figure_mib(job, estimator)


def figure_mib(job: TraceJob, estimator: str) -> float | None:
    """Return the trace's figure. The prototype's mark of a failure becomes a whole device."""
    figure = job.estimates.get(estimator)
    if figure is None or job.declared:
        return figure
    return float(WHOLE_DEVICE_MIB) if figure >= _FAILED_MIB else figure


def errors_of(estimator: str, known: frozenset[str]) -> Sequence[float] | None:
    """Return the ratios of measured to estimated memory to draw from.

    None: the trace has the estimates (`known`), or there are none. Raises `UsageError` for an
    unknown estimator.
    """
    names = {*AS_DECLARED, NONE, AUTO, *known, *ERRORS_SEEN}
    if estimator not in names:
        raise UsageError(
            f"the trace has no estimates of {estimator!r}; there are: {', '.join(sorted(names))}"
        )
    if estimator in known or estimator in AS_DECLARED:
        return None
    return ERRORS_SEEN.get(estimator)


def as_records(job: TraceJob, estimator: str, mib: float) -> tuple[Estimate, ...]:
    """Return the estimate of a job's memory by this estimator."""
    source = DECLARED if estimator in AS_DECLARED or job.declared else estimator
    return (Estimate(Quantity.MEMORY, mib, ceil(mib), source),)


def declared_of(job: TraceJob, error: float, rng: Random) -> float:
    """Return the memory in MiB per GPU that the submitter declares, with this error."""
    return job.memory_mib * exp(off(rng) * error)


def known_records(job: TraceJob, known: Known, rng: Random) -> tuple[Estimate, ...]:
    """Return the estimates of the known quantities of a job.

    The upper bound holds for 95 % of the jobs. The same values are drawn whatever is known.
    """
    found = []
    for quantity, true, error, most in (
        (Quantity.MEMORY, job.memory_mib, known.memory, inf),
        (Quantity.SMACT, job.smact, known.smact, 1.0),
        (Quantity.DURATION, job.duration_s, known.duration, inf),
    ):
        apart = off(rng)
        if error is not None:
            value = min(most, true * exp(apart * error))
            upper = min(most, value * exp(_95_PERCENT * error))
            found.append(Estimate(quantity, value, upper, _FROM_TRACE))
    return tuple(found)


def off(rng: Random) -> float:
    """Draw an error in standard deviations: at most three, so that one extreme draw does not
    distort a run."""
    return max(-3.0, min(3.0, rng.gauss(0.0, 1.0)))


def told_profile(
    profile: Sequence[Profiled], job: TraceJob, known: Sequence[Estimate]
) -> tuple[Profiled, ...]:
    """Return a job's run times with the error of its estimated duration."""
    told = next((each for each in known if each.quantity is Quantity.DURATION), None)
    ratio = 1.0 if told is None else told.value / job.duration_s
    return tuple(replace(each, duration_s=each.duration_s * ratio) for each in profile)


# ------------------------------------------------------------------
# The daemon's own estimator `auto` in the simulator.
#
# Only its input is simulated: its routes are the trace's columns, if it has any, and its past runs
# those of the simulated run. A job's `name` stands for its program and arguments: runs of the same
# user and name are runs of the same job, as those of one fingerprint are to the daemon.


_ROUTES = tuple(name for name in AUTO_CHAIN if name not in ("declared", "history"))
_LEAST_ALONE = 1
"""Readings that show a job alone: each simulated one holds until something changes."""


class AutoEstimates:
    """The estimator `auto` for one run. It corrects estimates by the runs that have ended.

    Without columns all that it knows is this history.
    """

    def __init__(
        self, config: Config, devices: Sequence[SimulatedDevice], jobs: Sequence[TraceJob]
    ) -> None:
        known = {name for job in jobs for name in job.estimates}
        routes = [name for name in _ROUTES if name in known]
        chain: list[Any] = [History(), *map(_Column, routes)]
        self._auto: Estimator = make_auto(config, chain)
        self._kinds = {each.device.uuid: each.device.name for each in devices}
        self._runs: deque[PastRun] = deque(maxlen=MOST_RUNS)
        self._own: dict[str, deque[PastRun]] = {}
        self._same: dict[tuple[str, str], deque[PastRun]] = {}

    def estimate(
        self, job: TraceJob, spec: JobSpec, known: tuple[Estimate, ...]
    ) -> tuple[Estimate, ...]:
        """Return the estimates of a job that is submitted now, the best first.

        `known` are those of the scenario: they are better than learned.
        """
        kinds = set(self._kinds.values())
        found = self._auto.estimate(
            Description(
                spec=spec,
                published=_figures(job),
                device_kind=kinds.pop() if len(kinds) == 1 else None,
                same_runs=tuple(self._same.get((job.user, job.name), ())),
                recent_runs=tuple(self._runs),
                own_runs=tuple(self._own.get(job.user, ())),
            )
        )
        given = {e.quantity for e in known}
        return tuple(e for e in found if e.quantity not in given) + known

    def add_run(self, job: TraceJob, attempt: Attempt, decision: Decision, peak_mib: float) -> bool:
        """Learn from an attempt that this decision has ended, if it completed. Returns whether.

        Attempts on several kinds of GPU do not count: their peak belongs to no single kind.
        """
        kinds = {self._kinds[uuid] for uuid in attempt.placement.devices}
        if len(kinds) != 1 or attempt.outcome is not Outcome.COMPLETED:
            return False
        ended = (r for r in decision.changed if isinstance(r, Job) and r.id == attempt.job_id)
        estimates = next(each.estimates for each in ended)
        told_smact = told_of(estimates, Quantity.SMACT)
        found = alone(attempt, trusted(told_smact), _LEAST_ALONE)
        run = PastRun(
            ceil(peak_mib),
            kinds.pop(),
            smact=found.smact,
            smact_most=found.smact_most,
            smact_alone=found.measured,
            alone=not any(usage.shared for usage in attempt.used.values()),
            duration_s=found.seconds,
            duration_most_s=found.seconds_most,
            told=told_of(estimates, Quantity.MEMORY) | _figures(job),
            told_smact=told_smact,
            told_duration=told_of(estimates, Quantity.DURATION),
            gpus=max(1, len(attempt.used)),
        )
        self._runs.appendleft(run)
        self._own.setdefault(job.user, deque(maxlen=MOST_RUNS)).appendleft(run)
        same = self._same.setdefault((job.user, job.name), deque(maxlen=LATEST))
        same.appendleft(run)
        return True


def _figures(job: TraceJob) -> dict[str, float]:
    figures = {name: figure_mib(job, name) for name in job.estimates}
    return {name: mib for name, mib in figures.items() if mib is not None}


class _Column(Struct):
    """An estimator whose figures are a column of the trace."""

    name: str

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        mib = job.published.get(self.name)
        return () if mib is None else (Estimate(Quantity.MEMORY, mib, ceil(mib), self.name),)
