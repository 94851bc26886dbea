"""What the estimators say of a trace's jobs."""

from __future__ import annotations

from math import ceil
from random import Random

from radrm.core.records import Estimate
from radrm.core.words import Quantity
from radrm.errors import UsageError
from radrm.estimators.errors_seen import ERRORS_SEEN
from radrm.radfile import WHOLE_DEVICE_MIB
from radrm.simulator.job import TraceJob

DECLARED = ("oracle", "declared")
NONE = "none"

_FAILED_MIB = 40000
"""In the prototype's files and traces: it failed, or found more than the device has."""


def estimate_of(job: TraceJob, estimator: str, rng: Random) -> float | None:
    """MiB per GPU; None where the estimator tells nothing. Raises `UsageError`."""
    if estimator in DECLARED:
        return job.memory_mib
    if estimator == NONE:
        return None
    told = job.estimates.get(estimator)
    if told is not None:
        return float(WHOLE_DEVICE_MIB) if told >= _FAILED_MIB else told
    errors = ERRORS_SEEN.get(estimator)
    # Drawn for every job or for none, so that a column with gaps draws nothing.
    return None if errors is None else job.memory_mib / rng.choice(errors)


def check_estimator(estimator: str, known: frozenset[str]) -> None:
    """Raises `UsageError` for an estimator that neither the trace nor the records know."""
    names = {*DECLARED, NONE, *known, *ERRORS_SEEN}
    if estimator not in names:
        raise UsageError(
            f"the trace has no estimates of {estimator!r}; there are: {', '.join(sorted(names))}"
        )


def as_records(
    job: TraceJob, estimator: str, mib: float | None, smact: bool
) -> tuple[Estimate, ...]:
    found = []
    if mib is not None:
        source = "declared" if estimator in DECLARED else estimator
        found.append(Estimate(Quantity.MEMORY, mib, ceil(mib), source))
    if smact:
        found.append(Estimate(Quantity.SMACT, job.smact, job.smact, "trace"))
    return tuple(found)
