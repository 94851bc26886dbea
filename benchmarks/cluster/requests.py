"""What radrm costs slurmctld, in a compressed day of twenty nodes, and of nodes at rest.

A day of 10,000 jobs on 200 nodes is one of 1,000 on twenty. They come at random times within some
minutes, each node with a daemon of its own, under the rules of job_submit.lua. sdiag counts
slurmctld's requests by kind. Those that Slurm alone makes for a job are left out.
"""

from __future__ import annotations

import os
import random
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
MOST_A_START, MOST_AT_REST = 3.0, 1.0
"""Each start asks once; a job that waits is shown, and given its wait back."""
REST_S = 60.0
A_DAY = 10_000
"""Jobs of a day on 200 nodes."""
PATIENCE_S = 1800.0
DURATIONS_S, SIZES_G = (5, 60), (4, 30)


def measure(cluster: Cluster, jobs: int = 1000, seconds: float = 600.0, seed: int = 1) -> list[Row]:
    """Submit jobs at random times within `seconds`; once they have ended, do nothing for a
    minute."""
    drawn = random.Random(seed)
    before, cpu_s = counts(cluster), _cpu_s(cluster)
    began = time.monotonic()
    for at_s in sorted(drawn.uniform(0.0, seconds) for _ in range(jobs)):
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        script = through_radrm(
            f"sleep {drawn.randint(*DURATIONS_S)}", f"--gpu-memory={drawn.randint(*SIZES_G)}G"
        )
        cluster.sbatch(script, "--cpus-per-task=2", "--time=30", "--open-mode=append")
    looks = 1
    while cluster.query("squeue", "-h"):
        assert time.monotonic() < began + seconds + PATIENCE_S, cluster.query("squeue")
        looks += 1
        time.sleep(2.0)
    ran_s = time.monotonic() - began
    cpu_s = {name: spent_s - cpu_s[name] for name, spent_s in _cpu_s(cluster).items()}
    asked = counts(cluster) - before - Counter({"REQUEST_JOB_INFO": looks})
    failed = sum(line["JobState"] != "COMPLETED" for line in cluster.completions())
    costs = _costs_us(cluster)
    detail = ", ".join(
        f"{kind.removeprefix('REQUEST_')} {n} of {costs[kind]} us"
        for kind, n in sorted(asked.items())
    )
    day_s = sum(n * costs[kind] for kind, n in asked.items()) / jobs * A_DAY / 1e6
    spent = ", ".join(f"{name} {1e3 * s / jobs:.0f} ms a job" for name, s in cpu_s.items())
    quiet = counts(cluster)
    time.sleep(REST_S)
    idle = counts(cluster) - quiet
    rest = idle.total() / len(cluster.nodes)
    each = asked.total() / jobs
    run = f"{jobs} jobs in {ran_s:.0f} s"
    return [
        Row("requests for a start and an end", each, MOST_A_START + 1, "", f"{run}: {detail}"),
        Row("runs that did not complete", failed, 0, "", spent),
        Row("slurmctld's time for 10,000 jobs", day_s, 86.4, "s", "a thousandth of a day"),
        Row("requests of a node at rest, a minute", rest, MOST_AT_REST, "", f"{dict(idle)}"),
    ]


def _cpu_s(cluster: Cluster) -> dict[str, float]:
    """The CPU seconds of slurmctld, and of all daemons of radrm."""
    processes = [home.process for home in cluster.daemons.values()]
    daemons = [process.pid for process in processes if process is not None]
    return {
        "slurmctld": _spent_s(cluster.processes["slurmctld"].pid),
        "radrm's daemons": sum(map(_spent_s, daemons)),
    }


def _spent_s(pid: int) -> float:
    """User and system time of a process, and of its ended children (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _costs_us(cluster: Cluster) -> dict[str, int]:
    """slurmctld's average time for each kind of request, in microseconds."""
    pattern = r"(REQUEST_\w+)\s*\(\s*\d+\)\s*count:\d+\s*ave_time:(\d+)"
    return {kind: int(us) for kind, us in re.findall(pattern, cluster.query("sdiag"))}


def counts(cluster: Cluster) -> Counter[str]:
    """How often slurmctld has had each kind of request of ours."""
    found = re.findall(r"(REQUEST_\w+)\s*\(\s*\d+\)\s*count:(\d+)", cluster.query("sdiag"))
    return Counter({kind: int(count) for kind, count in found if kind in OURS})
