"""Time from `sbatch` to the job's first instruction: plain Slurm, and through radrm.

slurmctld starts batch jobs about once a second. So both jobs of a pair are submitted together, at a
random moment, and start in the same round of slurmctld; the difference between them is radrm's.
Submitted one after the other, they would measure how long each waits for its round.

A job writes the time with `date`, so both have the start of one small program.
"""

from __future__ import annotations

import random
import statistics
import time

from benchmarks.cluster.place import through_radrm
from benchmarks.table import Row
from tests.slurm.cluster import Cluster

LIMIT_S = 0.3
ROUND_S = 1.0


def measure(cluster: Cluster, pairs: int = 30, seed: int = 1) -> list[Row]:
    """One row: by how much a job through radrm begins later than its pair, in the median."""
    drawn = random.Random(seed)
    plain, later = [], []
    for number in range(pairs):
        time.sleep(drawn.uniform(0.0, ROUND_S))
        alone_s, through_s = _first_instructions(cluster, number, through_first=number % 2 == 0)
        plain.append(alone_s)
        later.append(through_s - alone_s)
    quarters = statistics.quantiles(later, n=4)
    detail = (
        f"medians of {pairs} pairs; quartiles {quarters[0]:.2f} and {quarters[2]:.2f} s; "
        f"Slurm alone {statistics.median(plain):.2f} s"
    )
    return [Row("first instruction later by", statistics.median(later), LIMIT_S, "s", detail)]


def _first_instructions(cluster: Cluster, number: int, through_first: bool) -> tuple[float, float]:
    """Seconds from the call of the first sbatch to the first instruction of a plain job, and of one
    through radrm. Both end before."""
    began = {radrm: cluster.work / f"{number}-{radrm}.began" for radrm in (False, True)}
    called = time.time()
    jobs = [
        _submit(cluster, f"date +%s.%N >{began[radrm]}", radrm)
        for radrm in (through_first, not through_first)
    ]
    for job in jobs:
        cluster.wait(job)
    alone, through = (float(began[radrm].read_text()) - called for radrm in (False, True))
    return alone, through


def _submit(cluster: Cluster, script: str, radrm: bool) -> int:
    if not radrm:
        return cluster.sbatch(script, "--partition=whole")
    text = through_radrm(script, "--gpu-memory=6G")
    return cluster.sbatch(text, "--partition=shared", "--gres=gpumem:6000")
