"""What the very same thing needed when it ran here before: no model comes near that."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from radrm.core.records import Estimate
from radrm.core.rules import Description, PastRun
from radrm.core.words import Quantity

LATEST = 10
"""So many of the latest runs count: what is older may have been another version of it."""


@dataclass(frozen=True, slots=True)
class History:
    """The highest peak of the latest runs with this job's fingerprint, mean SMACT and duration
    of those that were alone on their GPUs.

    Runs on the kind of GPU that the job will get are believed first; those on others only
    where there is none, as the CUDA context and the libraries differ between kinds.
    """

    name: str = "history"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        runs = _same_kind(job)[:LATEST]
        if not runs:
            return ()
        peak = float(max(run.peak_mib for run in runs))
        told = [Estimate(Quantity.MEMORY, peak, peak, self.name)]
        alone = [run for run in runs if run.alone]
        smacts = [run.smact for run in alone if run.smact is not None]
        if smacts:
            told.append(Estimate(Quantity.SMACT, median(smacts), max(smacts), self.name))
        durations = [run.duration_s for run in alone if run.duration_s is not None]
        if durations:
            longest = max(durations)
            told.append(Estimate(Quantity.DURATION, median(durations), longest, self.name))
        return tuple(told)


def _same_kind(job: Description) -> list[PastRun]:
    kind = job.device_kind
    same = [run for run in job.same_runs if kind is None or run.device_kind == kind]
    return same or list(job.same_runs)
