"""A node dies: how long until its jobs run on another one.

Slurm finds the node dead after SlurmdTimeout and up to twice as long, and starts a job again
`cred_expire` seconds later: 5 here, 120 where nothing is set.
"""

from __future__ import annotations

import time

from benchmarks.cluster.place import through_radrm
from benchmarks.table import Row
from tests.slurm.cluster import Cluster
from tests.slurm.configuration import CRED_EXPIRE_S, SLURMD_TIMEOUT_S
from tests.waiting import wait_until

SLACK_S = 10.0
LIMIT_S = 2.5 * SLURMD_TIMEOUT_S + CRED_EXPIRE_S + SLACK_S
PATIENCE_S = 300.0


def measure(cluster: Cluster, jobs: int = 2) -> list[Row]:
    """Kill the node that has the jobs; the slowest of them counts. Each has a GPU of its own."""
    node = cluster.nodes[0]
    runs = cluster.work / "runs"
    runs.touch(mode=0o666)
    script = f'echo "$SLURM_JOB_ID $SLURMD_NODENAME" >>{runs}\nsleep 600'
    text = through_radrm(script, "--gpu-memory=2G")
    others = f"--exclude={','.join(cluster.nodes[1:])}"
    ids = [cluster.sbatch(text, "--gres=gpumem:2048", others) for _ in range(jobs)]
    wait_until(lambda: len(runs.read_text().split("\n")) > jobs, "the jobs' first runs")
    cluster.kill_node(node)
    died = time.monotonic()
    # They were bound to that node so that they begin there.
    waiting = set(ids)
    while waiting and time.monotonic() < died + PATIENCE_S:
        for job in sorted(waiting):
            if cluster.job(job)["JobState"] == "PENDING":
                cluster.scontrol("update", f"JobId={job}", "ExcNodeList=")
                waiting.remove(job)
        time.sleep(0.2)

    def again() -> bool:
        return len(runs.read_text().split("\n")) > 2 * jobs

    wait_until(again, "the jobs' second runs", PATIENCE_S)
    seconds = time.monotonic() - died
    nodes = {line.split()[1] for line in runs.read_text().splitlines()[jobs:]}
    for job in ids:
        cluster.run("scancel", str(job))
        cluster.wait(job)
    detail = (
        f"SlurmdTimeout {SLURMD_TIMEOUT_S} s, cred_expire {CRED_EXPIRE_S} s; on {sorted(nodes)}"
    )
    return [Row("a node's death to its jobs elsewhere", seconds, LIMIT_S, "s", detail)]
