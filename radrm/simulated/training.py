"""What a model of distributed training says: the speed of a job's tasks, and what they use.

The models themselves are pure functions of their parameters and of the tasks; `simulator.elastic`
runs them in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol

from msgspec import Struct


class TaskAt(Struct, frozen=True):
    """One task of a job, as a model sees it: it may use `cpus` CPUs of the server `node`."""

    role: str
    number: int
    cpus: float
    node: str


class Rates(Struct, frozen=True):
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


# ------------------------------------------------------------------
# DLRover's model of a training with parameter servers: the time of one worker's step.
#
# A step reads and prepares a batch (`io_s`), computes gradients (`compute_s`) and has the
# parameters updated (`update_s`); a job's speed is the sum of its workers' (DLRover 4.1, equation
# 1). Only the computation grows when a worker has fewer CPUs than it uses, and only the update
# waits for others.
#
# Theory of operation. Workers are not synchronous, so their updates meet on a parameter server by
# chance. A server is a queue with a finite number of customers: N workers, each away for the rest
# of its step. With k of them there it completes `min(k / update_s, cpus / work)` updates per
# second, where `work` is the CPU time of an update on this server. Arrival is memoryless, and the
# stationary state of this birth-death chain is exact. Servers work at the same time, so the slowest
# one decides. Parameters are divided by whole tensors (4.2): one that is larger than an even part
# stays whole, and its server is *hot*, however many servers there are.


_LEAST = 1e-6
"""CPUs of a task that has none: it works, but hardly."""


class StepModel(Struct, frozen=True):
    """One job by DLRover's equation 1. Times are of one worker alone, with all CPUs it can use.

    `worker_cpus`: CPUs that a worker uses at most; it is seen to use them also while it waits, as
    published (Table 1). `update_cpu_s`: CPU seconds of one step's update, on all parameter servers
    together. `tensors`: the parts (0..1) of the parameters in tensors that cannot be divided. A
    step's network is not modelled: DLRover has it in `io_s`.
    """

    io_s: float
    compute_s: float
    update_s: float
    worker_cpus: float
    update_cpu_s: float
    tensors: tuple[float, ...] = ()

    @property
    def step_s(self) -> float:
        """The time of one worker's step, unhindered."""
        return self.io_s + self.compute_s + self.update_s

    def rates(self, tasks: Sequence[TaskAt]) -> Rates:
        """Return the steady state. Without a worker or a parameter server nothing is done."""
        servers = [task for task in tasks if task.role == "ps"]
        away = {task: self._away_s(task) for task in tasks if task.role != "ps"}
        if not servers or not away:
            return Rates(0.0, tuple(0.0 for _ in tasks), tuple(0.0 for _ in tasks))
        parts = dict(zip(servers, divided(len(servers), self.tensors), strict=True))
        waiting_s = max(self._there_s(fmean(away.values()), len(away), ps, parts) for ps in servers)
        steps_s = sum(1 / (away_s + waiting_s) for away_s in away.values())
        return Rates(
            steps_s,
            tuple(
                min(task.cpus, self.worker_cpus)
                if task in away
                else min(task.cpus, steps_s * parts[task] * self.update_cpu_s)
                for task in tasks
            ),
            tuple(0.0 for _ in tasks),
        )

    def _away_s(self, worker: TaskAt) -> float:
        """Return the time of a step that a worker is away from the parameter servers."""
        slower = self.worker_cpus / max(_LEAST, min(worker.cpus, self.worker_cpus))
        return self.io_s + self.compute_s * slower

    def _there_s(
        self, away_s: float, workers: int, server: TaskAt, parts: dict[TaskAt, float]
    ) -> float:
        """Return the time of a step that workers spend at this server, waiting included."""
        work_s = parts[server] * self.update_cpu_s / max(_LEAST, server.cpus)
        steps_s = finite_source(workers, away_s, self.update_s, work_s)
        return workers / steps_s - away_s


def divided(servers: int, tensors: Sequence[float]) -> list[float]:
    """Return each server's part of the parameters, the largest first; they add up to 1.

    Large tensors have a server each as long as they exceed an even part of what is left.
    """
    parts: list[float] = []
    left = 1.0
    for tensor in sorted(tensors, reverse=True):
        if len(parts) + 1 >= servers or tensor <= left / (servers - len(parts)):
            break
        parts.append(tensor)
        left -= tensor
    return parts + [left / (servers - len(parts))] * (servers - len(parts))


def finite_source(customers: int, away_s: float, alone_s: float, work_s: float) -> float:
    """Return how many services per second a shared server gives to `customers` customers.

    Each is away for `away_s` in the mean, then needs `alone_s` there if it is not slowed down; all
    together the server gives one service per `work_s` at most.
    """

    def served_s(there: int) -> float:
        return min(there / alone_s, 1 / work_s)

    if away_s <= 0:
        return served_s(customers)
    weights = [1.0]
    for there in range(1, customers + 1):
        weights.append(weights[-1] * (customers - there + 1) / away_s / served_s(there))
    whole = sum(weights)
    return sum(w * served_s(there) for there, w in enumerate(weights) if there) / whole
