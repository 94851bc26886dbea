"""What a job will need, and how far it has got."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records.time import Instant
from radrm.core.words import Quantity

DECLARED = "declared"
"""The source of an estimate that is its submitter's word."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an estimator expects: a value and an upper bound of one quantity.

    `raw` is its own figure, before what this machine has learned of its errors was
    applied; None where the two are one. `seconds`: how long the answer took. `guesses`: what
    nobody said of the job and the figure takes for granted, each a line for the user.
    `context_mib`: what of its own figure is the CUDA context, None where it counts none
    apart; `cuda`: the CUDA version that the job's program was built with, where it is known.
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
    """What a job reports of itself. `work_done` is a fraction of the whole, 0..1."""

    at: Instant
    step: float | None = None
    total: float | None = None
    loss: float | None = None
    work_done: float | None = None
