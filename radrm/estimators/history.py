"""The need of earlier runs of the same job: more accurate than every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from radrm.core.records import Estimate
from radrm.core.words import Quantity
from radrm.estimators.interface import Description, PastRun

LATEST = 10
"""The number of latest runs that count. Older ones may be of another version of the program."""


@dataclass(frozen=True, slots=True)
class History:
    """The highest peak of the latest runs with this job's fingerprint, and the median SM
    activity and duration of those that were alone on their GPUs.

    Runs on the job's kind of GPU come first. Others count only if there are none, since the
    CUDA context and the libraries differ. Upper bound: the next run may exceed the highest
    peak by as much as that exceeds the median.
    """

    name: str = "history"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        runs = _same_kind(job)[:LATEST]
        if not runs:
            return ()
        peaks = [run.peak_mib for run in runs]
        peak = float(max(peaks))
        spread = peak - median(peaks)
        reading = _reading(job, runs)
        estimates = [Estimate(Quantity.MEMORY, peak, peak + spread, self.name, guesses=reading)]
        alone = [run for run in runs if run.alone]
        smacts = [run.smact for run in alone if run.smact is not None]
        if smacts:
            estimates.append(Estimate(Quantity.SMACT, median(smacts), max(smacts), self.name))
        durations = [run.duration_s for run in alone if run.duration_s is not None]
        if durations:
            longest = max(durations)
            estimates.append(Estimate(Quantity.DURATION, median(durations), longest, self.name))
        return tuple(estimates)


def _reading(job: Description, runs: Sequence[PastRun]) -> tuple[str, ...]:
    """Return notes for the user on the runs that count as the same job."""
    count = len(runs)
    lines = [f"runs: {count} of the same job" if count > 1 else "runs: one of the same job"]
    kind = runs[0].device_kind
    if job.device_kind is not None and kind != job.device_kind:
        lines.append(f"kind of GPU: figures from {kind}, no run on {job.device_kind} yet")
    return tuple(lines)


def _same_kind(job: Description) -> list[PastRun]:
    kind = job.device_kind
    same = [run for run in job.same_runs if kind is None or run.device_kind == kind]
    return same or list(job.same_runs)
