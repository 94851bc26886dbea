"""Our own rule, `elastic`, on a server with four GPUs: beside fixed sizes.

The jobs are those of examples/traces/elastic.csv, drawn by lot (with their steps and memory), and
come by a Poisson process: the trace's own quiet times would favour the rule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType

from radrm.config import Config
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob, step_times
from radrm.lab.simulator.traces.trace import read_trace
from radrm.simulated.spec import parse
from radrm.structs import replace
from tests.paths import REPOSITORY

TRACE = REPOSITORY / "examples" / "traces" / "elastic.csv"
GPUS, COUNT = "sim:4xA100-40GB", 4
JOBS = 60
LOADS = (0.2, 0.4, 0.6, 0.8)
"""GPU time of the jobs at their smallest size, per time and GPU."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """A way to size jobs: what the trace says, a fixed size, or the rule."""

    name: str
    planners: tuple[str, ...] = ("strict",)
    size: Callable[[TraceJob], TraceJob] = lambda job: job
    restarts: bool = False


def at_least(job: TraceJob) -> TraceJob:
    """Return the job with its smallest size for ever."""
    return replace(
        job, gpus_max=None, cpus_max=None, io_s=None, compute_s=None, sync_s=None, cpus=None
    )


def at_most(job: TraceJob) -> TraceJob:
    """Return the job with its largest size for ever: as fast, and its GPUs as active, as that."""
    steps = step_times(job)
    if steps is None or job.gpus_max is None:
        return job
    return replace(
        at_least(job),
        gpus=job.gpus_max,
        duration_s=job.duration_s / steps.pace(job.gpus_max),
        smact=min(1.0, job.smact * steps.activity(job.gpus_max)),
    )


SIZINGS = (
    Sizing("smallest size", size=at_least),
    Sizing("largest size", size=at_most),
    Sizing("`elastic`", ("strict", "elastic")),
    Sizing("`elastic`, by restarts", ("strict", "elastic"), restarts=True),
)


@dataclass(frozen=True, slots=True)
class Served:
    """Means over the jobs of a run, in hours; `resizes`: of a job."""

    queue_h: float
    completion_h: float
    resizes: float


def drawn(load: float, seed: int, count: int = JOBS) -> list[TraceJob]:
    """Return jobs drawn by lot, whose work comes at this load."""
    lots = random.Random(seed)
    jobs = read_trace(TRACE.read_text().splitlines(), TRACE.name).jobs
    chosen = [lots.choice(jobs) for _ in range(count)]
    gpu_s = fmean(job.duration_s * job.gpus for job in jobs)
    every_s = gpu_s / (load * COUNT)
    found, at_s = [], 0.0
    for line, job in enumerate(chosen):
        at_s += lots.expovariate(1 / every_s)
        found.append(replace(job, submit_s=at_s, line=line + 2))
    return found


def served(sizing: Sizing, load: float, seed: int, count: int = JOBS) -> Served:
    """Return what becomes of the jobs of a draw with a way to size them."""
    jobs = [sizing.size(job) for job in drawn(load, seed, count)]
    life = Life(restarts=sizing.restarts)
    config = Config(policy="exclusive", planner=sizing.planners)
    run = simulate(jobs, Scenario(devices=parse(GPUS), config=config, seed=seed, life=life))
    found = metrics(run)
    assert found.unfinished == 0 and found.mean_jct_s is not None
    resizes = (found.resizes or 0) / len(jobs)
    return Served(_queue_h(run), found.mean_jct_s / 3600, resizes)


def all_served(
    seeds: Sequence[int], loads: Sequence[float] = LOADS
) -> Mapping[tuple[str, float], Sequence[Served]]:
    """Return each way to size jobs at each load, over seeds."""
    return MappingProxyType(
        {
            (sizing.name, load): [served(sizing, load, seed) for seed in seeds]
            for sizing in SIZINGS
            for load in loads
        }
    )


def _queue_h(run: Run) -> float:
    return fmean(each.attempts[0].started_s - each.job.submit_s for each in run.jobs) / 3600
