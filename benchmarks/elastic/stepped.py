"""The planners `dlrover` and `nearchus` themselves, under `Scheduler.step`, on the same models.

The simulator's loop (`simulator.elastic.training`) runs the jobs: starts, resizes, shares,
reports. The other ways (auto-scaling, Optimus, FA-BF) are no planners of radrm; beside these runs
stand their times from this benchmark's own loop. One node stands for a cluster: all CPUs are
booked there, and the model deals the tasks out to the servers in turn, as `Cluster.tasks` does. So
no task is too large for what one server has left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from benchmarks.elastic.cluster import NOISE, RESTARTS
from benchmarks.elastic.models import CRITEO_STEPS, NETWORKS, Cluster, Network, Recommender
from benchmarks.elastic.recommenders import REPARTITION_S, START_S
from benchmarks.elastic.shared import ALONE_H, COUNT, steps, trace
from benchmarks.elastic.training_cluster import ClusterModel
from radrm.config import Config
from radrm.core.records import Needs, Node, Role
from radrm.lab.simulator.elastic.training import (
    TrainingJob,
    TrainingJobRun,
    TrainingScenario,
    simulate_training,
)
from radrm.published.nearchus import Nearchus
from radrm.published.servers.layout import Layout
from radrm.simulated.training import Rates, TaskAt, Training
from radrm.structs import replace
from radrm.wiring import make_planner

_MANY_CPUS = 1000.0
"""Of DLRover's cluster: more than a job's quota, so that there is room for spare workers."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """A model whose tasks are dealt out to so many servers, wherever they are booked."""

    servers: int
    model: ClusterModel

    def rates(self, tasks: Sequence[TaskAt]) -> Rates:
        """Return the steady state of these tasks."""
        order = sorted(range(len(tasks)), key=lambda at: (tasks[at].role, tasks[at].number))
        node = {task: f"server{at % self.servers}" for at, task in enumerate(order)}
        return self.model.rates([replace(t, node=node[at]) for at, t in enumerate(tasks)])


@dataclass(frozen=True, slots=True)
class Budgeted(Nearchus):
    """NEARCHUS with a budget for each job, by its name."""

    budgets: Mapping[str, float] = field(default_factory=dict)

    def wish(self, look: Any, note: Any) -> Any:
        budget = self.budgets[look.job.spec.name]
        own = self if self.budget == budget else dataclasses.replace(self, budget=budget)
        return Nearchus.wish(own, look, note)


def dlrover(job: Recommender) -> TrainingJobRun:
    """Return the run of one of DLRover's jobs by the planner."""
    scenario = TrainingScenario(
        (Node(cpus=_MANY_CPUS),),
        start_s=START_S,
        standby_s=START_S,
        resize_s=REPARTITION_S,
    )
    run = simulate_training(
        [_job(0.0, job.name, job.model, CRITEO_STEPS, 1.0, 32.0)],
        scenario,
        (make_planner(Config(), "dlrover"),),
    )
    return run.jobs[0]


def alone_h(cluster: Cluster, hours: float = ALONE_H, seed: int = 0) -> dict[str, float]:
    """Return the hours of a job alone on a cluster by the planner `nearchus`, by network."""
    return {name: (run.jct_s or 0.0) / 3600 for name, run in alone(cluster, hours, seed).items()}


def alone(
    cluster: Cluster, hours: float, seed: int = 0, networks: Sequence[Network] = NETWORKS
) -> dict[str, TrainingJobRun]:
    """Return the run of a job of each network that has the cluster for itself."""
    found = {}
    for network in networks:
        model = Dealt(cluster.servers, cluster.model(network))
        job = _job(0.0, network.name, model, steps(cluster, network, hours), 0.1, 64.0)
        found[network.name] = _run(cluster, [job], {network.name: cluster.cpus}, seed)[0]
    return found


def forty(cluster: Cluster, seed: int, count: int = COUNT) -> tuple[float, float]:
    """Return the mean hours in the queue, and until the end, of a trace's jobs."""
    jobs, budgets = [], {}
    for at, each in enumerate(trace(cluster, seed, count)):
        name = f"{each.network.name}-{at}"
        model = Dealt(cluster.servers, cluster.model(each.network))
        jobs.append(_job(each.at_s, name, model, each.steps, 0.1, 64.0))
        budgets[name] = each.budget
    runs = _run(cluster, jobs, budgets, seed)
    ended = [run for run in runs if run.jct_s is not None and run.queue_s is not None]
    assert len(ended) == count, [run.reason for run in runs if run.jct_s is None]
    queues = [run.queue_s or 0.0 for run in ended]
    times = [run.jct_s or 0.0 for run in ended]
    return sum(queues) / count / 3600, sum(times) / count / 3600


def layouts(run: TrainingJobRun) -> list[tuple[Layout, float]]:
    """Return the layouts in which a job has worked, each with its speed (steps per second)."""
    found: list[tuple[Layout, float]] = []
    for span in run.spans:
        if not span.steps_s:
            continue
        tasks = sorted(span.tasks, key=lambda task: task.number)
        layout = Layout(
            tuple(task.cpus for task in tasks if task.role == "ps"),
            tuple(task.cpus for task in tasks if task.role == "worker"),
        )
        if not found or found[-1][0] != layout:
            found.append((layout, span.steps_s))
    return found


def _job(
    at_s: float, name: str, model: Training, wanted: float, least: float, most: float
) -> TrainingJob:
    needs = Needs(gpus=0, cpus=least, cpus_max=most)
    roles = Role("ps", 1, 100, needs=needs), Role("worker", 1, 100, needs=needs)
    return TrainingJob(at_s, name, model, wanted, roles)


def _run(
    cluster: Cluster, jobs: Sequence[TrainingJob], budgets: Mapping[str, float], seed: int
) -> Sequence[TrainingJobRun]:
    usual = make_planner(Config(), "nearchus")
    settings = {each.name: getattr(usual, each.name) for each in fields(Nearchus) if each.init}
    scenario = TrainingScenario(
        (Node(cpus=cluster.cpus),),
        start_s=RESTARTS.tasks_s,
        resize_s=RESTARTS.tasks_s,
        noise=NOISE,
        seed=seed,
    )
    return simulate_training(jobs, scenario, (Budgeted(**settings, budgets=budgets),)).jobs
