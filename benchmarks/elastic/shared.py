"""The experiments of NEARCHUS' section V: one job alone, and forty that share a cluster."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType

from benchmarks.elastic.cluster import RESTARTS, Costs, Played, TrainingJob, Ways, play
from benchmarks.elastic.models import NETWORKS, Cluster, Network
from benchmarks.elastic.search import (
    Fixed,
    Nearchus,
    NearchusByLot,
    best_fixed,
    blind,
    knowing,
    rates,
)

WAYS: Mapping[str, Ways] = MappingProxyType(
    {
        "nearchus": lambda cluster, model: Nearchus(),
        "nearchus by lot": lambda cluster, model: NearchusByLot(),
        "optimus": blind,
        "optimus with network": knowing,
        "fa-bf": Fixed,
    }
)
ALONE_H = 2.0
"""Hours of a job alone with the whole cluster, by FA-BF (assumed)."""
COUNT, EVERY_S = 40, 3600.0
"""Jobs of the trace, and the mean time between two of them (V-B)."""
BUDGETS = (0.5, 0.75, 1.0)
"""Parts of the cluster that a job may have at most (assumed; three of the six variants)."""
LENGTHS_H = (0.5, 1.0)
"""Hours with the whole cluster, by FA-BF. Assumed: so that FA-BF's longest queue is the published
one, six jobs, in the median of the seeds."""


@dataclass(frozen=True, slots=True)
class Alone:
    """One job alone: its best speed and its completion time, by way."""

    network: Network
    speeds: Mapping[str, float]
    completion_s: Mapping[str, float]

    def faster(self, beside: str) -> float:
        """Return by how many per cent NEARCHUS' best speed is higher."""
        return 100 * (self.speeds["nearchus"] / self.speeds[beside] - 1)

    def sooner(self, beside: str, way: str = "nearchus") -> float:
        """Return by how many per cent the completion time of a way is shorter."""
        return 100 * (1 - self.completion_s[way] / self.completion_s[beside])


def steps(cluster: Cluster, network: Network, hours: float) -> float:
    """Return the steps that FA-BF makes in some hours with the whole cluster."""
    model = cluster.model(network)
    best = best_fixed(cluster, model, cluster.cpus)
    return rates(cluster, model, best).steps_s * hours * 3600


def alone(
    cluster: Cluster, hours: float = ALONE_H, seed: int = 0, costs: Costs = RESTARTS
) -> list[Alone]:
    """Return what becomes of a job of each network that has the cluster for itself."""
    found = []
    for network in NETWORKS:
        job = TrainingJob(0.0, network, steps(cluster, network, hours), cluster.cpus)
        played = {name: play(cluster, [job], way, seed, costs)[0] for name, way in WAYS.items()}
        found.append(
            Alone(
                network,
                {name: max(each.speeds) for name, each in played.items()},
                {name: each.completion_s for name, each in played.items()},
            )
        )
    return found


def trace(cluster: Cluster, seed: int, count: int = COUNT) -> list[TrainingJob]:
    """Return jobs that come by a Poisson process, drawn from 30 kinds."""
    lots = random.Random(seed)
    at_s, jobs = 0.0, []
    for _ in range(count):
        at_s += lots.expovariate(1 / EVERY_S)
        network, budget = lots.choice(NETWORKS), lots.choice(BUDGETS) * cluster.cpus
        work = steps(cluster, network, lots.choice(LENGTHS_H))
        jobs.append(TrainingJob(at_s, network, work, budget))
    return jobs


@dataclass(frozen=True, slots=True)
class Forty:
    """The jobs of a trace by one way: mean hours, and the longest queue."""

    queued_h: float
    run_h: float
    longest: int

    @property
    def completion_h(self) -> float:
        return self.queued_h + self.run_h


def forty(cluster: Cluster, way: str, seed: int, count: int = COUNT) -> Forty:
    """Return what becomes of a trace by one way."""
    played = play(cluster, trace(cluster, seed, count), WAYS[way], seed)
    return Forty(
        fmean(each.queued_s for each in played) / 3600,
        fmean(each.ended_s - each.begun_s for each in played) / 3600,
        _longest(played),
    )


def _longest(played: Sequence[Played]) -> int:
    """Return the most jobs that waited at once."""
    steps = [(each.job.at_s, 1) for each in played] + [(each.begun_s, -1) for each in played]
    waiting = most = 0
    for _, step in sorted(steps):
        waiting += step
        most = max(most, waiting)
    return most
