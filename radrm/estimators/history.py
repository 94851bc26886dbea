"""The need of earlier runs of the same job: more accurate than every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from msgspec import Struct

from radrm.core.records import Chip, Estimate
from radrm.core.words import Quantity
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.learned import quantile_of
from radrm.estimators.learning.ratios import (
    ALL_JOBS,
    ALONE,
    OWN_JOBS,
    PROFILED,
    SAME_NAME,
    SHARED,
)

LEAST_USUAL = 5
"""Fewer runs of a user's jobs, or of all, do not tell what is usual."""
LATEST = 10
"""The number of latest runs that count. Older ones may be of another version of the program."""
WAITING = 50
"""The first waiting jobs that are predicted again when a run of the same job has ended."""
_NARROW = 0.1
"""Ranges narrower than this fraction of their figure count alike."""


@dataclass(frozen=True, slots=True)
class History:
    """The highest peak of the latest runs with this job's fingerprint, and the median SM
    activity and duration of those that were alone on their GPUs.

    Runs on the job's kind of GPU come first. Others count only if there are none, since the
    CUDA context and the libraries differ. Of these, runs with as many GPUs as the job starts with
    come first: with more, each has a smaller part of the batch. Upper bound: the next run may
    exceed the highest peak by as much as that exceeds the median.

    A run alone that reported its progress shows the duration of all its work, however it ended.
    SM activity and duration come from shared runs (corrected), then from runs of the same name,
    if there are no better ones; their source says so. Without any of these the SM activity of most
    of the user's jobs here, or of all, is what rules assume (`Quantity.USUAL_SMACT`). A duration
    counts for the same length of training (`--epochs`), and its bound is above the time after which
    such runs were stopped.
    """

    name: str = "history"

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        runs, named = _alike(job, job.same_runs), _alike(job, job.named_runs)
        estimates = []
        if runs:
            peaks = [run.peak_mib for run in runs]
            peak = float(max(peaks))
            upper, reading = peak + peak - median(peaks), _reading(job, runs)
            estimates.append(Estimate(Quantity.MEMORY, peak, upper, self.name, guesses=reading))
        chip = _chip(runs or named)
        predicted = (
            (Quantity.SMACT, _smacts(job, runs, chip), _smacts(job, named, chip)),
            (Quantity.DURATION, _durations(job, runs), _durations(job, named)),
        )
        for quantity, same, of_name in predicted:
            profiled = _profiled(job) if quantity is Quantity.DURATION else ()
            routes = (
                (ALONE, same.alone),
                (PROFILED, profiled),
                (SHARED, same.shared),
                (SAME_NAME, of_name.every),
            )
            source, figures = next(((s, f) for s, f in routes if f), (self.name, ()))
            if figures:
                value, upper = _middle(figures)
                upper = max(upper, *same.least, 0.0)
                about = chip if quantity is Quantity.SMACT else None
                estimates.append(Estimate(quantity, value, upper, source, chip=about))
        if all(each.quantity is not Quantity.SMACT for each in estimates):
            estimates += _usual(job)
        return tuple(estimates)


Range = tuple[float, float]
"""A figure of a past run, and the largest that fits its readings."""


class _Figures(Struct, frozen=True):
    """One quantity of past runs: of those alone, of the others, and lower bounds of the upper."""

    alone: tuple[Range, ...]
    shared: tuple[Range, ...]
    least: tuple[float, ...] = ()

    @property
    def every(self) -> tuple[Range, ...]:
        return self.alone + self.shared


def _middle(figures: Sequence[Range]) -> Range:
    """Return the median of figures, of which narrow ranges count more, and an upper bound.

    The bound is the largest figure, or the median of the ranges' ends.
    """
    weighted = []
    for value, most in figures:
        width = (most - value) / value if value > 0 else 1.0
        weighted.append((value, most, 1.0 / (_NARROW + width)))
    if len({weight for _, _, weight in weighted}) == 1:
        return median(value for value, _ in figures), max(most for _, most in figures)
    value = quantile_of([(value, weight) for value, _, weight in weighted], 0.5)
    most = quantile_of([(most, weight) for _, most, weight in weighted], 0.5)
    return value, max(value, most)


def _usual(job: Description) -> list[Estimate]:
    """Return the middle SM activity of the user's latest jobs, else of all on such GPUs."""
    for source, runs in ((OWN_JOBS, job.own_runs), (ALL_JOBS, job.recent_runs)):
        kind = job.device_kind
        found = [
            run.smact
            for run in runs
            if run.smact is not None and (kind is None or run.device_kind == kind)
        ]
        if len(found) >= LEAST_USUAL:
            return [Estimate(Quantity.USUAL_SMACT, median(found), max(found), source)]
    return []


def _smacts(job: Description, runs: Sequence[PastRun], chip: Chip | None) -> _Figures:
    """Return the SM activity of runs, scaled to one kind of GPU if theirs is known."""
    alone: list[Range] = []
    shared: list[Range] = []
    for run in runs:
        if run.smact is not None:
            most = (
                run.smact if run.smact_most is None or run.own_smact is not None else run.smact_most
            )
            said = Estimate(Quantity.SMACT, run.smact, most, "", chip=_chip([run]))
            here = said.on(chip)
            (shared if run.own_smact is None else alone).append((here.value, here.upper))
    return _Figures(tuple(alone), tuple(shared))


def _chip(runs: Sequence[PastRun]) -> Chip | None:
    """Return the kind of GPU of the latest run of which it is known."""
    for run in runs:
        if run.sm_rate:
            return Chip(run.device_kind, run.sm_rate)
    return None


def _durations(job: Description, runs: Sequence[PastRun]) -> _Figures:
    whole = [run for run in runs if run.length == job.length]
    completed = [
        (run.alone, run.duration_s, run.duration_s if most is None else most)
        for run in whole
        for most in (run.duration_most_s,)
        if run.duration_s is not None
    ]
    return _Figures(
        tuple((seconds, most) for alone, seconds, most in completed if alone),
        tuple((seconds, most) for alone, seconds, most in completed if not alone),
        tuple(run.least_s for run in whole if run.least_s is not None),
    )


def _profiled(job: Description) -> tuple[Range, ...]:
    """Return the job's run time by its profile on its kind of GPU; on any for several kinds."""
    kind, gpus = job.device_kind, job.spec.gpus
    times = [p.duration_s for p in job.profile if kind in (None, p.kind) and p.gpus == gpus]
    return tuple((each, each) for each in times)


def _reading(job: Description, runs: Sequence[PastRun]) -> tuple[str, ...]:
    """Return notes for the user on the runs that count as the same job."""
    count = len(runs)
    lines = [f"runs: {count} of the same job" if count > 1 else "runs: one of the same job"]
    kind = runs[0].device_kind
    if job.device_kind is not None and kind != job.device_kind:
        lines.append(f"kind of GPU: figures from {kind}, no run on {job.device_kind} yet")
    return tuple(lines)


def _alike(job: Description, runs: Sequence[PastRun]) -> Sequence[PastRun]:
    """Return the latest runs on the job's kind and number of GPUs.

    Of any number if there are none, and of any kind if there are none of that either.
    """
    kind, gpus = job.device_kind, job.spec.gpus
    there = [run for run in runs if kind is None or run.device_kind == kind] or runs
    same = [run for run in there if run.gpus == gpus]
    return (same or there)[:LATEST]
