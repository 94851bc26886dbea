"""Time from `sbatch` to the job's first instruction: plain Slurm, and through radrm.

The two alternate on the same cluster. A job writes the time with `date`, so both have the start of
one small program.
"""

from __future__ import annotations

import statistics
import time

from benchmarks.cluster.place import through_radrm
from benchmarks.table import Row
from tests.slurm.cluster import Cluster
from tests.waiting import wait_until

LIMIT_S = 0.5


def measure(cluster: Cluster, jobs: int = 30) -> list[Row]:
    """One row: by how much the median through radrm is above that of Slurm alone."""
    plain, shared = [], []
    for number in range(jobs):
        plain.append(_first_instruction(cluster, f"plain-{number}", radrm=False))
        shared.append(_first_instruction(cluster, f"shared-{number}", radrm=True))
    alone, through = statistics.median(plain), statistics.median(shared)
    detail = f"Slurm alone {alone:.2f} s, through radrm {through:.2f} s, medians of {jobs}"
    return [
        Row("sbatch to first instruction, more", max(0.0, through - alone), LIMIT_S, "s", detail)
    ]


def _first_instruction(cluster: Cluster, name: str, radrm: bool) -> float:
    """Seconds from the call of sbatch to the job's first instruction. The job ends before."""
    began = cluster.work / f"{name}.began"
    script = f"date +%s.%N >{began}"
    words = ("--partition=shared", "--gres=gpumem:6000") if radrm else ("--partition=whole",)
    text = through_radrm(script, "--gpu-memory=6G") if radrm else script
    called = time.time()
    job = cluster.sbatch(text, *words)
    wait_until(lambda: began.exists() and began.read_text(), f"job {job}: {name}")
    cluster.wait(job)
    return float(began.read_text()) - called
