"""What radrm costs slurmctld: its requests for each start and each end, and of nodes at rest.

Twenty nodes, each with a daemon; each has more jobs than its GPUs take, so most of them wait there.
sdiag counts slurmctld's requests by kind. Those that Slurm alone makes for a job are left out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

from benchmarks.cluster.place import through_radrm
from benchmarks.table import Row
from tests.slurm.cluster import Cluster

NODES = tuple(f"n{number:02}" for number in range(1, 21))
OURS = (
    *("REQUEST_JOB_INFO_SINGLE", "REQUEST_UPDATE_JOB", "REQUEST_JOB_INFO", "REQUEST_JOB_USER_INFO"),
    *("REQUEST_JOB_REQUEUE", "REQUEST_PING", "REQUEST_NODE_INFO", "REQUEST_UPDATE_NODE"),
    "REQUEST_BUILD_INFO",
)
"""The kinds of requests that commands of radrm make."""
MOST_A_START, MOST_AT_REST = 4.0, 1.0
"""A job that waits is shown, and given its wait back: three more than the one of each start."""
REST_S = 60.0
A_DAY = 10_000
"""Jobs of a day on 200 nodes."""
PATIENCE_S = 1800.0


def measure(cluster: Cluster, jobs: int = 200, seconds: int = 40) -> list[Row]:
    """Run an array whose jobs wait for GPUs, then do nothing for a minute."""
    script = through_radrm(f"sleep {seconds}", "--gpu-memory=30G")
    before = counts(cluster)
    words = f"--array=0-{jobs - 1}", "--gres=gpumem:2048", "--cpus-per-task=2", "--time=30"
    cluster.sbatch(script, *words, f"--output={cluster.work}/%A_%a.out", "--open-mode=append")
    late_s = time.monotonic() + PATIENCE_S
    looks = 1
    while cluster.query("squeue", "-h"):
        assert time.monotonic() < late_s, cluster.query("squeue")
        looks += 1
        time.sleep(2.0)
    asked = counts(cluster) - before - Counter({"REQUEST_JOB_INFO": looks})
    each = asked.total() / jobs
    for line in sorted({_reason(log) for log in cluster.work.glob("*.out")} - {""}):
        print(line)
    costs = _costs_us(cluster)
    detail = ", ".join(
        f"{kind.removeprefix('REQUEST_')} {n} of {costs[kind]} us"
        for kind, n in sorted(asked.items())
    )
    day_s = sum(n * costs[kind] for kind, n in asked.items()) / jobs * A_DAY / 1e6
    began, quiet = time.monotonic(), counts(cluster)
    time.sleep(REST_S)
    idle = counts(cluster) - quiet
    minutes = (time.monotonic() - began) / 60
    rest = idle.total() / minutes / len(cluster.nodes)
    return [
        Row(
            "requests for a start and an end", each, MOST_A_START + 1, "", f"{jobs} jobs: {detail}"
        ),
        Row("slurmctld's time for 10,000 jobs", day_s, 86.4, "s", "a thousandth of a day"),
        Row("requests of a node at rest, a minute", rest, MOST_AT_REST, "", f"{dict(idle)}"),
    ]


def _costs_us(cluster: Cluster) -> dict[str, int]:
    """slurmctld's average time for each kind of request, in microseconds."""
    pattern = r"(REQUEST_\w+)\s*\(\s*\d+\)\s*count:\d+\s*ave_time:(\d+)"
    return {kind: int(us) for kind, us in re.findall(pattern, cluster.query("sdiag"))}


def _reason(log: Path) -> str:
    """Why a job went back to Slurm; nothing if it did not."""
    lines = log.read_text(errors="replace").splitlines()
    return next((line for line in lines if "goes back" in line), "")


def counts(cluster: Cluster) -> Counter[str]:
    """How often slurmctld has had each kind of request of ours."""
    found = re.findall(r"(REQUEST_\w+)\s*\(\s*\d+\)\s*count:(\d+)", cluster.query("sdiag"))
    return Counter({kind: int(count) for kind, count in found if kind in OURS})
