"""A training with parameter servers on a cluster: what limits it, by NEARCHUS' measurements (III).

Three things limit a job; the measurement study names them:

- **MU** (maximum utilisation): the workers of one server cannot use all of it, least of all a
  single one. One worker stagnates at 16, 21 and 37 CPUs of servers with 20, 32 and 64 (figure 3);
  of 64 CPUs, two use 46 together and ten 57 (figure 4). What stays idle falls with a power of the
  number of workers (`SHARING`), which follows from the first two and gives the third.
- **PSC**: a parameter server has too few CPUs for its part of the updates.
- **PSN**: parameters and gradients of each step cross the network between a worker's server and a
  parameter server's (figure 5). Tasks of one server exchange them without the network.

Speed grows in proportion to the CPUs that workers use (figures 1 and 2), because computing and
exchange overlap: the speed is the soft minimum of the three limits, not the inverse of a sum. The
exponent of that minimum says how sharp the bend is where one limit takes over from another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from radrm.published.servers.layout import Layout
from radrm.simulated.training import Rates, TaskAt, divided

BEND = 16.0
"""The exponent of soft minima: sharp, as a job that uses 95 % of its CPUs is NEARCHUS' aim."""
SHARING = 0.585
"""The power with which idle CPUs of a server fall with its workers: log2((64 - 37) / (64 - 46))."""


def tasks_of(layout: Layout, servers: int | None = None) -> tuple[TaskAt, ...]:
    """Return the tasks of a layout, dealt out to so many servers in turn; None: each has one of its
    own. Parameter servers come first."""
    counted = [("ps", n, cpus) for n, cpus in enumerate(layout.servers)]
    counted += [("worker", n, cpus) for n, cpus in enumerate(layout.workers)]
    return tuple(
        TaskAt(role, n, cpus, f"{role}{n}" if servers is None else f"server{at % servers}")
        for at, (role, n, cpus) in enumerate(counted)
    )


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """One job on one kind of server, with `cores` CPUs, of which one worker can use `alone`.

    `step_cpu_s`: CPU seconds of workers per step; `update_cpu_s`: of all parameter servers
    together. `exchange_s`: how long one step's parameters (or gradients: the link is full duplex)
    take on a server's network alone. `tensors` as of `StepModel`.
    """

    step_cpu_s: float
    update_cpu_s: float
    exchange_s: float
    cores: float
    alone: float
    tensors: tuple[float, ...] = ()

    def rates(self, tasks: Sequence[TaskAt]) -> Rates:
        """Return the steady state. Without a worker or a parameter server nothing is done."""
        servers = [task for task in tasks if task.role == "ps"]
        usable = self._usable([task for task in tasks if task.role != "ps"])
        whole = sum(usable.values())
        if not servers or not whole:
            return Rates(0.0, tuple(0.0 for _ in tasks), tuple(0.0 for _ in tasks))
        parts = dict(zip(servers, divided(len(servers), self.tensors), strict=True))
        shares = {worker: cpus / whole for worker, cpus in usable.items()}
        traffic = _traffic(parts, shares)
        busiest = max(traffic.values())
        limits = [whole / self.step_cpu_s]
        if self.update_cpu_s:
            limits.append(
                min(min(ps.cpus, self.alone) / (parts[ps] * self.update_cpu_s) for ps in servers)
            )
        if busiest and self.exchange_s:
            limits.append(1 / (busiest * self.exchange_s))
        steps_s = soft_minimum(limits, BEND)
        used = {ps: steps_s * parts[ps] * self.update_cpu_s for ps in servers}
        used |= {worker: steps_s * share * self.step_cpu_s for worker, share in shares.items()}
        link = {node: steps_s * part * self.exchange_s for node, part in traffic.items()}
        return Rates(
            steps_s,
            tuple(used[task] for task in tasks),
            tuple(link[task.node] for task in tasks),
        )

    def _usable(self, workers: Sequence[TaskAt]) -> dict[TaskAt, float]:
        """Return how many CPUs each worker can keep busy: its part of what its server's can."""
        here: dict[str, list[TaskAt]] = defaultdict(list)
        for worker in workers:
            here[worker.node].append(worker)
        found: dict[TaskAt, float] = {}
        for there in here.values():
            given = sum(worker.cpus for worker in there)
            idle = (self.cores - self.alone) * len(there) ** -SHARING
            busy = soft_minimum([given, self.cores - idle], BEND)
            found |= {each: busy * each.cpus / given if given else 0.0 for each in there}
        return found


def soft_minimum(limits: Iterable[float], exponent: float) -> float:
    """Return a value below the least limit: near it, unless others are near, too."""
    values = list(limits)
    least = min(values)
    if least <= 0:
        return 0.0
    near: float = sum((least / value) ** exponent for value in values)
    return float(least * near ** (-1 / exponent))


def _traffic(parts: dict[TaskAt, float], shares: dict[TaskAt, float]) -> dict[str, float]:
    """Return the part of each step's exchange that crosses each server's network, by server."""
    here_parts: dict[str, float] = defaultdict(float)
    here_shares: dict[str, float] = defaultdict(float)
    for ps, part in parts.items():
        here_parts[ps.node] += part
    for worker, share in shares.items():
        here_shares[worker.node] += share
    return {
        node: here_parts[node] * (1 - here_shares[node])
        + here_shares[node] * (1 - here_parts[node])
        for node in here_parts.keys() | here_shares.keys()
    }
