"""The smallest work first, with ageing: work is the activity of SMs that a job needs in all.

A job that fills half of two GPUs for an hour takes as much from others as one that fills one GPU
for an hour. So the rule of the shortest job (`shortest.py`) weighs the time by the part of the
server that a job takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Job
from radrm.core.words import Quantity
from radrm.orders.ageing import Ageing


@dataclass(frozen=True, slots=True)
class SmallestWork(Ageing):
    """Sort jobs by expected duration x GPUs x SM activity.

    Raises ValueError for an SM activity outside 0..1.
    """

    unknown_smact: float = 1.0
    """The SM activity to assume for a job without a prediction of it."""
    wide_weight: float = 1.0
    """The work of a job on several GPUs counts this many times. Below 1 it starts earlier: started
    last, it keeps other GPUs waiting. 0: before all others."""
    name: str = "smallest-work"

    def __post_init__(self) -> None:
        if not 0 <= self.unknown_smact <= 1:
            raise ValueError(f"unknown_smact = {self.unknown_smact} is not a fraction from 0 to 1")

    def size(self, job: Job) -> float:
        smact = job.predicted(Quantity.SMACT)
        active = self.unknown_smact if smact is None else smact
        weight = self.wide_weight if job.spec.gpus > 1 else 1.0
        return self.remaining_s(job) * max(1, job.spec.gpus) * active * weight
