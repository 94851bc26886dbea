"""Several users under MPS: turns, time-slices beside clients, no MPS, and one user.

    python -m benchmarks.simulation.users [--seeds 3] [--users 10] [--jobs 100]

The jobs are drawn by the seed: three of five run at most 20 minutes, and a few users have most.
Memory is declared within 8 %, SM activity and duration are known within 15 % and 30 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from statistics import fmean

from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from radrm.structs import replace

SERVER = "sim:4xA100-40GB"
SHORT_S = 1200.0
_KNOWN = Known(declared=0.08, smact=0.15, duration=0.3)
_ONE_USER = "one user"


@dataclass(frozen=True, slots=True)
class Way:
    """How users share a GPU."""

    what: str
    mps: bool = True


WAYS = (
    Way("beside clients"),
    Way("without MPS", mps=False),
    Way(_ONE_USER),
)


def drawn(seed: int, users: int, count: int) -> list[TraceJob]:
    """Jobs that keep four GPUs busy, most of them of a few users."""
    rng, at_s, found = Random(f"users {seed}"), 0.0, []
    for number in range(count):
        at_s += rng.expovariate(1 / 420)
        short = rng.random() < 0.6
        long_s = min(30_000.0, rng.lognormvariate(9.0, 0.7))
        found.append(
            TraceJob(
                submit_s=at_s,
                name=f"job{number}",
                gpus=1,
                duration_s=rng.uniform(180.0, SHORT_S) if short else long_s,
                memory_mib=rng.uniform(2000.0, 15_000.0),
                smact=rng.uniform(0.1, 0.75),
                user=f"user{min(users - 1, int(rng.expovariate(0.35)))}",
                line=number + 1,
            )
        )
    return found


def measure(seeds: int = 3, users: int = 10, count: int = 100) -> Iterator[str]:
    """Yield a line for each way, as soon as it is simulated."""
    head = ("", "mean completion", "makespan", "short jobs wait", "out of memory")
    yield f"{head[0]:16}{head[1]:>17}{head[2]:>10}{head[3]:>17}{head[4]:>15}"
    for way in WAYS:
        runs = [_run(way, seed, drawn(seed, users, count)) for seed in range(seeds)]
        waits = [
            (job.attempts[0].started_s - job.job.submit_s) / 60
            for run in runs
            for job in run.jobs
            if job.attempts and job.job.duration_s <= SHORT_S
        ]
        ends = [
            (job.ended_s - job.job.submit_s) / 60
            for run in runs
            for job in run.jobs
            if job.ended_s is not None
        ]
        makespan, deaths = fmean(r.ended_s / 60 for r in runs), fmean(r.oom_count for r in runs)
        yield (
            f"{way.what:16}{fmean(ends):13.0f} min{makespan:6.0f} min{fmean(waits):13.0f} min"
            f"{deaths:15.1f}"
        )


def _run(way: Way, seed: int, jobs: list[TraceJob]) -> Run:
    if way.what == _ONE_USER:
        jobs = [replace(job, user="user") for job in jobs]
    scenario = Scenario(
        devices=parse(SERVER), seed=seed, mps=way.mps, estimator="none", known=_KNOWN
    )
    return simulate(jobs, scenario)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.users")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=100)
    asked = parser.parse_args()
    for line in measure(asked.seeds, asked.users, asked.jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
