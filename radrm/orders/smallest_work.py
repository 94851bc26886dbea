"""The smallest work first, with ageing: work is the activity of SMs that a job needs in all.

A job that fills half of two GPUs for an hour takes as much from others as one that fills one GPU
for an hour. So the rule of the shortest job (`shortest.py`) weighs the time by the part of the
server that a job takes.

A job on several GPUs may start earlier than its work says (`wide_weight`). Only a job that needs
several does: if asking for a second GPU were enough, every user would ask for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
    """The work of a job on several GPUs counts this many times. Below 1 it starts earlier, if one
    GPU could not show its predicted SM activity; 0: before all others."""
    name: str = "smallest-work"
    first: ClassVar[str] = "smaller"

    def __post_init__(self) -> None:
        if not 0 <= self.unknown_smact <= 1:
            raise ValueError(f"unknown_smact = {self.unknown_smact} is not a fraction from 0 to 1")

    def size(self, job: Job) -> float:
        smact = job.predicted(Quantity.SMACT)
        active = self.unknown_smact if smact is None else smact
        gpus = max(1, job.spec.gpus)
        needs_them = smact is not None and gpus * smact > 1.0
        weight = 1.0 if gpus == 1 or (self.wide_weight < 1 and not needs_them) else self.wide_weight
        return self.remaining_s(job) * gpus * active * weight
