"""The estimates of a trace's jobs: from its columns, or drawn from known errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, inf
from random import Random

from radrm.core.records import DECLARED, Estimate, Profiled
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.errors import UsageError
from radrm.estimators.learning.errors_seen import ERRORS_SEEN
from radrm.simulator.scenario import AUTO, Known
from radrm.simulator.traces.job import TraceJob

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
        # At most three deviations, so that one extreme draw does not distort a run.
        off = max(-3.0, min(3.0, rng.gauss(0.0, 1.0)))
        if error is not None:
            value = min(most, true * exp(off * error))
            upper = min(most, value * exp(_95_PERCENT * error))
            found.append(Estimate(quantity, value, upper, _FROM_TRACE))
    return tuple(found)


def told_profile(
    profile: Sequence[Profiled], job: TraceJob, known: Sequence[Estimate]
) -> tuple[Profiled, ...]:
    """Return a job's run times with the error of its estimated duration."""
    told = next((each for each in known if each.quantity is Quantity.DURATION), None)
    ratio = 1.0 if told is None else told.value / job.duration_s
    return tuple(replace(each, duration_s=each.duration_s * ratio) for each in profile)
