"""What a model of distributed training says: the speed of a job's tasks, and what they use.

The models themselves are pure functions of their parameters and of the tasks; `simulator.elastic`
runs them in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TaskAt:
    """One task of a job, as a model sees it: it may use `cpus` CPUs of the server `node`."""

    role: str
    number: int
    cpus: float
    node: str


@dataclass(frozen=True, slots=True)
class Rates:
    """The steady state of a job. The tuples have an entry for each task, in their order.

    `steps_s`: steps of the whole job per second. `cpus`: the CPUs that each task uses, at most its
    own. `network`: the part (0..1) of its server's network that each task uses.
    """

    steps_s: float
    cpus: tuple[float, ...]
    network: tuple[float, ...]


class Training(Protocol):
    """A model of one job: a frozen dataclass of its parameters."""

    def rates(self, tasks: Sequence[TaskAt]) -> Rates:
        """Return the steady state of these tasks. Equal tasks give equal rates."""
        ...
