"""Predictions of a job's needs, and the progress that it reports."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records.time import Instant
from radrm.core.words import Quantity

DECLARED = "declared"
"""The source of an estimate that the submitter declared."""

MEASURED = "measured"
"""The source of an estimate that an earlier attempt of the job itself has shown."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A prediction of one quantity: a value and an upper bound.

    `source`: the route that gave it. `raw`: the estimator's own figure before the correction
    by past runs; None if they are equal. `seconds`: how long the answer took. `guesses`:
    assumptions about the job, each a line for the user. `context_mib`: the part of the raw
    figure that is the CUDA context; None if it is not counted apart. `cuda`: the CUDA version
    of the job's program; None if unknown.
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


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a job reports; None: it did not say.

    `step` of `total` steps are done, in epoch `epoch`. `loss` is what the job minimises, in units
    of its own. `work_done` is a fraction of all its work, 0..1. `data_wait` is the fraction of the
    time of its last steps in which it waited for data, 0..1.
    """

    at: Instant
    step: float | None = None
    total: float | None = None
    loss: float | None = None
    work_done: float | None = None
    epoch: float | None = None
    data_wait: float | None = None


@dataclass(frozen=True, slots=True)
class Profiled:
    """The run time of all of a job's work, alone on `gpus` GPUs of one kind, in seconds.

    `kind` is a device's name, as its driver gives it.
    """

    kind: str
    gpus: int
    duration_s: float
