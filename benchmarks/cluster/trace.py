"""A trace of sixty jobs on three nodes: with and without sharing, real and simulated.

Slurm and real daemons run the trace on simulated GPUs, whose clock is SCALE times as fast. The same
jobs with the same settings are what `radrm simulate --servers 3 --dealer gpumem` gets. Jobs declare
what they need. Each is a `radrm-simjob` that lives as its job does in the simulator.
"""

from __future__ import annotations

import random
import shlex
import time
from math import ceil

from benchmarks.cluster.place import running_cluster, through_radrm
from benchmarks.table import Row
from radrm.lab.experiments.simulations.runs import results
from radrm.lab.experiments.simulations.variants import (
    Choices,
    configured,
    make_variant,
    own_estimator,
)
from radrm.lab.simulator.scenario import Life
from radrm.lab.simulator.traces.job import TraceJob
from tests.slurm.cluster import Cluster
from tests.slurm.configuration import NODES
from tests.waiting import wait_until

SCALE = 30.0
"""Slurm takes about a second to start a job: half a minute of the GPUs' clock."""

LIMIT = 0.10
"""Of the total time: how far real and simulated may lie apart."""

GPUS = "sim:2xA100-40GB"
POLICIES = {"without sharing": "exclusive", "with sharing": "packing"}
START_UP_S, RAMP_S = 30.0, 15.0


def drawn(jobs: int, seed: int = 1) -> list[TraceJob]:
    """The trace: jobs of five to twenty-five minutes, submitted within ten."""
    chance = random.Random(seed)
    times = sorted(chance.uniform(0.0, 600.0) for _ in range(jobs))
    return [
        TraceJob(
            *(round(submit_s, 1), f"job-{at}", 1, round(chance.uniform(300.0, 1500.0), 1)),
            memory_mib=(mib := chance.randrange(5_000, 18_000)),
            steady_mib=mib,
            smact=round(chance.uniform(0.2, 0.6), 2),
        )
        for at, submit_s in enumerate(times)
    ]


def measure(jobs: int = 60, scale: float = SCALE) -> list[Row]:
    """A row for each policy: how far total times lie apart. Starts clusters of its own."""
    lines = drawn(jobs)
    rows, real = [], {}
    for what, policy in POLICIES.items():
        with running_cluster([f"policy={policy}"], scale) as cluster:
            real[what] = play(cluster, lines, scale)
        simulated = simulated_s(lines, policy)
        apart = abs(real[what] / simulated - 1)
        detail = f"{jobs} jobs, real {real[what]:.0f} s, simulated {simulated:.0f} s"
        rows.append(Row(f"total time {what}, real and simulated", apart, LIMIT, "apart", detail))
    without, shared = real.values()
    rows.append(Row("total time with sharing, of that without", shared / without, 1.0, "x"))
    return rows


def play(cluster: Cluster, lines: list[TraceJob], scale: float) -> float:
    """Submit the jobs at their times; the seconds of the GPUs' clock to the last end."""
    begun = time.monotonic()
    ids = []
    for line in lines:
        time.sleep(max(0.0, begun + line.submit_s / scale - time.monotonic()))
        text = through_radrm(
            "exec " + shlex.join(stand_in(line)),
            f"--gpu-memory={line.memory_mib:g}M",
            f"--smact={line.smact}",
            f"--duration={line.duration_s:.0f}",
        )
        ids.append(cluster.sbatch(text, f"--gres=gpumem:{line.memory_mib:g}"))
    last = (lines[-1].submit_s + sum(line.duration_s for line in lines)) / scale
    wait_until(
        lambda: not cluster.query("squeue", "--noheader").strip(), "the jobs", 60.0 + 2 * last
    )
    total = (time.monotonic() - begun) * scale
    assert all(cluster.job(job)["ExitCode"] == "0:0" for job in ids)
    return total


def stand_in(line: TraceJob) -> list[str]:
    """The simulated training job."""
    words = ["radrm-simjob", "--gpu-memory", str(ceil(line.memory_mib)), "--smact", f"{line.smact}"]
    words += ["--seconds", f"{line.duration_s - START_UP_S:.1f}", "--start-up", f"{START_UP_S}"]
    return [*words, "--ramp", f"{RAMP_S}", "--print-every", "3600"]


def simulated_s(lines: list[TraceJob], policy: str) -> float:
    """The total time by `radrm simulate`, of GPUs that live as `stand_in` says."""
    choices = Choices(
        gpus=GPUS,
        collocation="timeslice",  # nothing here starts MPS servers
        known=("smact", "duration"),
        servers=len(NODES),
        dealer="gpumem",
        life=Life(start_up_s=START_UP_S, ramp_s=RAMP_S, hold_s=0, first_mib=0, spread=0, work_sd=0),
    )
    base = configured()
    variant = make_variant(base, policy, own_estimator(base), choices)
    (result,) = results([lines], [variant], [0])
    return result.runs[0].makespan_s
