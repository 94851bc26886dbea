"""What the very same thing needed when it ran here before: no model comes near that."""

from __future__ import annotations

from collections.abc import Sequence
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
    where there is none, as the CUDA context and the libraries differ between kinds. Upper
    bound: the next run may lie above the highest by as much as that lies above the middle one.
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
        told = [Estimate(Quantity.MEMORY, peak, peak + spread, self.name, guesses=reading)]
        alone = [run for run in runs if run.alone]
        smacts = [run.smact for run in alone if run.smact is not None]
        if smacts:
            told.append(Estimate(Quantity.SMACT, median(smacts), max(smacts), self.name))
        durations = [run.duration_s for run in alone if run.duration_s is not None]
        if durations:
            longest = max(durations)
            told.append(Estimate(Quantity.DURATION, median(durations), longest, self.name))
        return tuple(told)


def _reading(job: Description, runs: Sequence[PastRun]) -> tuple[str, ...]:
    """What is taken for the same thing as this job."""
    count = len(runs)
    lines = [f"runs: {count} of the same thing" if count > 1 else "runs: one of the same thing"]
    kind = runs[0].device_kind
    if job.device_kind is not None and kind != job.device_kind:
        lines.append(f"kind of GPU: as on {kind}, none has run on {job.device_kind}")
    return tuple(lines)


def _same_kind(job: Description) -> list[PastRun]:
    kind = job.device_kind
    same = [run for run in job.same_runs if kind is None or run.device_kind == kind]
    return same or list(job.same_runs)
