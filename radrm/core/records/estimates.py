"""Predictions of a job's needs, and the progress that it reports."""

from __future__ import annotations

from dataclasses import dataclass, replace

from radrm.core.records.devices import Chip
from radrm.core.records.time import Instant
from radrm.core.words import Quantity

DECLARED = "declared"
"""The source of an estimate that the submitter declared."""

DECLARED_MARGIN = 0.15
"""What a job may need beyond its declared memory, as a part of it: people declare what they have
seen, rounded."""

MEASURED = "measured"
"""The source of an estimate that an earlier attempt of the job itself has shown."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A prediction of one quantity: a value and an upper bound.

    `source`: the route that gave it. `raw`: the estimator's own figure before the correction
    by past runs; None if they are equal. `seconds`: how long the answer took. `guesses`:
    assumptions about the job, each a line for the user. `context_mib`: the part of the raw
    figure that is the CUDA context; None if it is not counted apart. `cuda`: the CUDA version
    of the job's program; None if unknown. `chip`, of SM activity: the kind of GPU that the figures
    are about; None: whichever the job gets.
    """

    quantity: Quantity
    value: float
    upper: float
    source: str
    seconds: float | None = None
    raw: float | None = None
    guesses: tuple[str, ...] = ()
    context_mib: float | None = None
    cuda: str | None = None
    chip: Chip | None = None

    def on(self, chip: Chip | None) -> Estimate:
        """Return this prediction of SM activity for another kind of GPU (None: unknown).

        The same work keeps so much less of a larger chip active, if the job has a pace of its own
        (data, launches). If the GPU sets the pace, the job runs faster and keeps its activity: so
        the upper bound is no smaller than before. Activity is at most 1.
        """
        if self.chip is None or chip is None or chip.sm_rate == self.chip.sm_rate:
            return self
        scale, upper = self.chip.sm_rate / chip.sm_rate, max(self.value, self.upper)
        value, upper = min(1.0, self.value * scale), min(1.0, max(upper, upper * scale))
        return replace(self, value=value, upper=upper, raw=None, chip=chip)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a job reports; None: it did not say.

    `step` of `total` steps are done, in epoch `epoch`. `loss` is what the job minimises, in units
    of its own. `work_done` is a fraction of all its work, 0..1. `data_wait` is the fraction of the
    time of its last steps in which it waited for data, 0..1.

    `at` is when it reported last, `step_at` when it last said how far it was; None: at `at`, too.
    """

    at: Instant
    step: float | None = None
    total: float | None = None
    loss: float | None = None
    work_done: float | None = None
    epoch: float | None = None
    data_wait: float | None = None
    step_at: Instant | None = None

    @property
    def measured(self) -> Instant:
        """When `step` and `work_done` were reported."""
        return self.at if self.step_at is None else self.step_at


@dataclass(frozen=True, slots=True)
class Profiled:
    """The run time of all of a job's work, alone on `gpus` GPUs of one kind, in seconds.

    `kind` is a device's name, as its driver gives it.
    """

    kind: str
    gpus: int
    duration_s: float
