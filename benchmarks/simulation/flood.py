"""One user's sweep of 80 jobs, and the short jobs of four others: how long do those wait?

Nothing is declared, and jobs are time-sliced, as shipped. `shipped` has its figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from random import Random

from radrm.config import Config
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario, as_configured
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse

SERVER = "sim:4xA100-40GB"
OTHERS = ("bob", "carl", "dora", "emil")
MOST_MIN = 15.0
"""The median wait of the others' jobs is at most so long."""


def flood(sweep: int = 80, short: int = 20, seed: int = 0) -> tuple[TraceJob, ...]:
    """Return a sweep of one user at time 0, and `short` jobs of others in the next ten hours.

    A job of the sweep takes about an hour, one of the others about ten minutes.
    """
    random = Random(f"flood {seed}")
    found = [
        TraceJob(
            *(random.uniform(0.0, 60.0), "train.py", 1, random.uniform(2700.0, 4500.0)),
            memory_mib=random.uniform(5_000.0, 9_000.0),
            smact=random.uniform(0.4, 0.8),
            user="ann",
        )
        for _ in range(sweep)
    ]
    for number in range(short):
        user = OTHERS[number % len(OTHERS)]
        found.append(
            TraceJob(
                *(random.uniform(1800.0, 36_000.0), f"{user}.py", 1, random.uniform(300.0, 900.0)),
                memory_mib=random.uniform(2_000.0, 8_000.0),
                smact=random.uniform(0.2, 0.8),
                user=user,
            )
        )
    found.sort(key=lambda job: job.submit_s)
    return tuple(found)


def as_shipped(config: Config | None = None, seed: int = 0) -> Scenario:
    """Return the settings of a run: time-sliced, and nothing declared."""
    return as_configured(parse(SERVER), config or Config(), seed=seed)


def waits_min(run: Run, users: Iterable[str] = OTHERS) -> list[float]:
    """Return how long each job of these users waited for its first start; infinity: for ever."""
    wanted = set(users)
    return [
        (each.attempts[0].started_s - each.job.submit_s) / 60 if each.attempts else inf
        for each in run.jobs
        if each.job.user in wanted
    ]
