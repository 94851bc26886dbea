"""What the estimators say of a trace's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random

from radrm.core.records import DECLARED, Estimate
from radrm.core.words import Quantity
from radrm.errors import UsageError
from radrm.estimators.errors_seen import ERRORS_SEEN
from radrm.jobfile.radfile import WHOLE_DEVICE_MIB
from radrm.simulator.job import TraceJob

AS_DECLARED = ("oracle", DECLARED)
NONE = "none"
AUTO = "auto"
"""The daemon's, over the columns of the trace: see `radrm.simulator.auto`."""

_FAILED_MIB = 40000
"""In the prototype's files and traces: it failed, or found more than the device has."""


def estimate_of(
    job: TraceJob, estimator: str, errors: Sequence[float] | None, rng: Random
) -> float | None:
    """MiB per GPU; None where the estimator tells nothing. `errors`: see `errors_of`."""
    if estimator in AS_DECLARED:
        return job.memory_mib
    if errors is not None:
        return job.memory_mib / rng.choice(errors)
    return told_mib(job, estimator)


def told_mib(job: TraceJob, estimator: str) -> float | None:
    """What stands in the trace; a figure that tells of a failure asks for a whole device."""
    told = job.estimates.get(estimator)
    if told is None:
        return None
    return float(WHOLE_DEVICE_MIB) if told >= _FAILED_MIB else told


def errors_of(estimator: str, known: frozenset[str]) -> Sequence[float] | None:
    """The ratios, measured over estimated, to draw from; None where the trace itself tells
    (`known`) or nothing is told. Raises `UsageError` for an estimator that nobody knows."""
    names = {*AS_DECLARED, NONE, AUTO, *known, *ERRORS_SEEN}
    if estimator not in names:
        raise UsageError(
            f"the trace has no estimates of {estimator!r}; there are: {', '.join(sorted(names))}"
        )
    if estimator in known or estimator in AS_DECLARED:
        return None
    return ERRORS_SEEN.get(estimator)


def as_records(
    job: TraceJob, estimator: str, mib: float | None, smact: bool
) -> tuple[Estimate, ...]:
    found = []
    if mib is not None:
        source = DECLARED if estimator in AS_DECLARED or job.declared else estimator
        found.append(Estimate(Quantity.MEMORY, mib, ceil(mib), source))
    if smact:
        found.append(Estimate(Quantity.SMACT, job.smact, job.smact, "trace"))
    return tuple(found)
