"""The measurements of NEARCHUS' section III, in the model: checked before any claim."""

from __future__ import annotations

from benchmarks.elastic.models import RESNET, Cluster
from benchmarks.elastic.training_cluster import ClusterModel, tasks_of
from radrm.published.servers.layout import Layout
from radrm.simulated.training import TaskAt

CORES = (20, 32, 64)
SHARED_WORKERS = (1, 2, 10)
"""The workers that share 59 CPUs of one server with a parameter server of 5 (figure 4)."""
_STRAIGHT = 0.05
"""A curve that is nowhere further above the line is one."""


def saturation() -> list[float]:
    """Return the CPUs that one worker uses, by the cores of its server (figure 3)."""
    return [_model(cores, 1.0).rates(_tasks([5.0], [cores], 1)).cpus[-1] for cores in CORES]


def shared() -> list[float]:
    """Return the CPUs that all tasks of one server with 64 cores use (figure 4)."""
    model = _model(64, 1.0)
    return [
        sum(model.rates(_tasks([5.0], [59 / count] * count, 1)).cpus) for count in SHARED_WORKERS
    ]


def slow_network() -> list[float]:
    """Return the change of CPU use in per cent from 10 to 1 Gbps, by cores (figure 5a).

    One parameter server and two workers have a server each.
    """
    found = []
    for cores in CORES:
        tasks = _tasks([cores], [cores] * 2)
        slow, fast = (sum(_model(cores, gbps).rates(tasks).cpus) for gbps in (1.0, 10.0))
        found.append(100 * (slow / fast - 1))
    return found


def use_by_workers(servers: int) -> list[float]:
    """Return the CPUs that all workers use: two to eleven of 3 CPUs, at 1 Gbps (figure 5b)."""
    model = _model(20, 1.0)
    return [
        sum(model.rates(_tasks([3.0] * servers, [3.0] * count)).cpus[servers:])
        for count in range(2, 12)
    ]


def knee(servers: int) -> int | None:
    """Return the number of workers at the bend of `use_by_workers`; None if it is a line.

    The bend is the point furthest above the line between both ends (Kneedle, Satopaa et al. 2011).
    """
    used = use_by_workers(servers)
    whole = used[-1] - used[0]
    above = [(each - used[0]) / whole - at / (len(used) - 1) for at, each in enumerate(used)]
    highest = max(range(len(used)), key=lambda at: above[at])
    return highest + 2 if above[highest] > _STRAIGHT else None


def _model(cores: int, gbps: float) -> ClusterModel:
    return Cluster("", 22, 0.0, gbps, cores).model(RESNET)


def _tasks(
    servers: list[float], workers: list[float], nodes: int | None = None
) -> tuple[TaskAt, ...]:
    return tasks_of(Layout(tuple(servers), tuple(workers)), nodes)
