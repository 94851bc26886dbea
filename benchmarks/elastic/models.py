"""The jobs and clusters of both papers as parameters of the models, and where each is from.

A number is *published* (the paper has it), *implied* (it follows from published ones), *fitted* (it
makes the model give the published figure named beside it) or *assumed*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from benchmarks.elastic.training_cluster import ClusterModel, tasks_of
from radrm.published.servers.layout import Layout
from radrm.simulated.training import StepModel, TaskAt

CRITEO_STEPS = 45_840_617 * 0.9 * 5 / 512
"""Criteo's samples, 90 % of them, five epochs, batches of 512 (DLRover 6.1)."""
QUOTA = 200.0
"""CPUs of a job of DLRover's experiments (6.1)."""
MOST_CPUS = 32.0
"""CPUs of one of its tasks at most (6.1)."""


@dataclass(frozen=True, slots=True)
class Recommender:
    """A job of DLRover's experiments: its model, and its configuration in Table 2."""

    name: str
    model: StepModel
    worker_used: float
    servers_used: float
    tuned: Layout


def _recommender(
    name: str,
    speed: float,
    used: tuple[float, float],
    compute: float,
    update: float,
    tuned: Layout,
    tensors: tuple[float, ...] = (),
) -> Recommender:
    """Return a job from the speed and the CPUs (worker, servers) of its sample in Table 1.

    `compute` and `update`: parts of a step's time; the rest is `io_s`.
    """
    step_s = 1 / speed
    io_s, compute_s, update_s = step_s * (1 - compute - update), step_s * compute, step_s * update
    model = StepModel(io_s, compute_s, update_s, used[0], used[1] / speed, tensors)
    return Recommender(name, model, *used, tuned)


WIDE_DEEP = _recommender(
    "W&D",
    12.0,
    (2.5, 5.7),
    compute=0.235,  # fitted: 24 % are saved with a worker at 25 % of its CPUs
    update=0.3,  # assumed; 0.1 to 0.5 change the hot servers' row by less than 4 %
    tuned=Layout((16.0,) * 8, (3.0,) * 24),
    tensors=(0.159, 0.159),  # two hot servers (published); their part fitted to 210 steps/s
)
X_DEEP_FM = _recommender(
    "xDeepFM",
    6.2,
    (19.4, 3.1),
    compute=0.3,  # fitted: 42 % are saved with a worker at 25 % of its CPUs
    update=0.445,  # fitted to 47.8 steps/s
    tuned=Layout((16.0,) * 2, (20.0,) * 8),
)


ALONE: Mapping[int, float] = MappingProxyType({20: 16.0, 32: 21.0, 64: 37.0})
"""CPUs that one worker can use, by cores of its server (published, figure 3)."""
COSTS: Mapping[int, float] = MappingProxyType({20: 1.0, 32: 0.736, 64: 1.303})
"""Relative CPU seconds of a step by cores of the server: fitted to -53.5, -53.4 % (figure 5a)."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of NEARCHUS' Table I. `cpus`: for all jobs together; `gbps`: of each server."""

    name: str
    servers: int
    cpus: float
    gbps: float
    cores: int

    def tasks(self, layout: Layout) -> tuple[TaskAt, ...]:
        """Return a job's tasks, dealt out to the servers in turn."""
        return tasks_of(layout, self.servers)

    def model(self, network: Network, gbps: float | None = None) -> ClusterModel:
        """Return the model of a neural network here. `gbps` replaces the speed of the network."""
        step_cpu_s = network.step_cpu_s * COSTS[self.cores]
        exchange_s = network.parameters_m * 1e6 * 32 / ((gbps or self.gbps) * 1e9)
        return ClusterModel(
            step_cpu_s, step_cpu_s * network.update, exchange_s, self.cores, ALONE[self.cores]
        )


@dataclass(frozen=True, slots=True)
class Network:
    """A neural network of NEARCHUS' Table II. `step_cpu_s`: on the servers with 20 cores.

    `update`: CPU seconds of the parameter servers per CPU second of workers (assumed: they "use
    much less compute resources than worker nodes").
    """

    name: str
    parameters_m: float
    step_cpu_s: float
    update: float = 0.05


A = Cluster("A", 9, 100.0, 1.0, 20)
B = Cluster("B", 9, 300.0, 50.0, 64)
RESNET = Network("ResNet-50", 23.0, 19.4)  # fitted to -17.7 % on 20 cores (figure 5a)
NETWORKS = (
    # Fitted to what Optimus used of 100 vCPU in the paper (III-C): 82, 86, 63 and 21 %. In the
    # model it ends with one parameter server and 19 workers. ResNet-50 is not fitted to its 43 %.
    Network("MobileNet", 4.2, 9.43),
    Network("DenseNet-201", 20.0, 47.3),
    Network("NasNetLarge", 84.9, 145.8),
    RESNET,
    Network("InceptionV3", 24.0, 13.74),
)


def without_network(model: ClusterModel) -> ClusterModel:
    """Return what a scheduler believes that knows CPUs but no network."""
    return replace(model, exchange_s=0.0)


def even(servers: int, workers: int, cpus: float = 5.0) -> Layout:
    """Return tasks of equal CPUs: those of Optimus and of the exhaustive search have 5."""
    return Layout((cpus,) * servers, (cpus,) * workers)


def used_part(cpus: Sequence[float], layout: Layout) -> float:
    """Return the part of a layout's CPUs that is used."""
    return sum(cpus) / layout.total
