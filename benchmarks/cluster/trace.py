"""A trace of sixty jobs on three nodes: with and without sharing, real and simulated.

Slurm and real daemons run the trace on simulated GPUs, whose clock is SCALE times as fast. The same
jobs with the same settings are what `radrm simulate --servers 3 --dealer gpumem` gets. Jobs declare
what they need. Each is a `radrm-simjob` that lives as its job does in the simulator.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from benchmarks.cluster.place import running_cluster, through_radrm
from benchmarks.table import Row
from tests.paths import REPOSITORY
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
HEADER = "submit_s,name,gpus,duration_s,memory_mib,steady_mib,smact"


@dataclass(frozen=True)
class TraceLine:
    """A job: seconds, MiB and a share of 1."""

    submit_s: float
    duration_s: float
    memory_mib: int
    smact: float


def drawn(jobs: int, seed: int = 1) -> list[TraceLine]:
    """The trace: jobs of five to twenty-five minutes, submitted within ten."""
    chance = random.Random(seed)
    times = sorted(chance.uniform(0.0, 600.0) for _ in range(jobs))
    return [
        TraceLine(
            round(submit_s, 1),
            round(chance.uniform(300.0, 1500.0), 1),
            chance.randrange(5_000, 18_000),
            round(chance.uniform(0.2, 0.6), 2),
        )
        for submit_s in times
    ]


def measure(jobs: int = 60, scale: float = SCALE) -> list[Row]:
    """A row for each policy: how far total times lie apart. Starts clusters of its own."""
    lines = drawn(jobs)
    rows, real = [], {}
    for what, policy in POLICIES.items():
        with running_cluster([f"policy={policy}"], scale) as cluster:
            real[what] = play(cluster, lines, scale)
            simulated = simulate(cluster.folder / "trace.csv", lines, policy)
        apart = abs(real[what] / simulated - 1)
        detail = f"{jobs} jobs, real {real[what]:.0f} s, simulated {simulated:.0f} s"
        rows.append(Row(f"total time {what}, real and simulated", apart, LIMIT, "apart", detail))
    without, shared = real.values()
    rows.append(Row("total time with sharing, of that without", shared / without, 1.0, "x"))
    return rows


def play(cluster: Cluster, lines: list[TraceLine], scale: float) -> float:
    """Submit the jobs at their times; the seconds of the GPUs' clock to the last end."""
    begun = time.monotonic()
    ids = []
    for line in lines:
        time.sleep(max(0.0, begun + line.submit_s / scale - time.monotonic()))
        text = through_radrm(
            "exec " + shlex.join(stand_in(line)),
            f"--gpu-memory={line.memory_mib}M",
            f"--smact={line.smact}",
            f"--duration={line.duration_s:.0f}",
        )
        ids.append(cluster.sbatch(text, f"--gres=gpumem:{line.memory_mib}"))
    last = (lines[-1].submit_s + sum(line.duration_s for line in lines)) / scale
    wait_until(
        lambda: not cluster.query("squeue", "--noheader").strip(), "the jobs", 60.0 + 2 * last
    )
    total = (time.monotonic() - begun) * scale
    assert all(cluster.job(job)["ExitCode"] == "0:0" for job in ids)
    return total


def stand_in(line: TraceLine) -> list[str]:
    """The simulated training job."""
    words = ["radrm-simjob", "--gpu-memory", str(ceil(line.memory_mib)), "--smact", f"{line.smact}"]
    words += ["--seconds", f"{line.duration_s - START_UP_S:.1f}", "--start-up", f"{START_UP_S}"]
    return [*words, "--ramp", f"{RAMP_S}", "--print-every", "3600"]


def simulate(place: Path, lines: list[TraceLine], policy: str) -> float:
    """The total time by `radrm simulate`, of GPUs that live as `stand_in` says."""
    rows = [
        f"{line.submit_s},job-{number},1,{line.duration_s},{line.memory_mib},{line.memory_mib},{line.smact}"
        for number, line in enumerate(lines)
    ]
    place.write_text("\n".join((HEADER, *rows)) + "\n")
    lives = {"start_up_s": START_UP_S, "ramp_s": RAMP_S, "hold_s": 0, "first_mib": 0}
    lives |= {"spread": 0, "work_sd": 0}
    words = ["simulate", str(place), "--gpus", GPUS, "--policy", policy, "--json"]
    words += ["--servers", str(len(NODES)), "--dealer", "gpumem", "--known", "smact,duration"]
    words += ["--collocation", "timeslice"]  # nothing here starts MPS servers
    for name, value in lives.items():
        words += ["--set", f"life.{name}={value}"]
    done = subprocess.run(
        [sys.executable, "-m", "radrm.cli.main", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=300.0,
    )
    assert done.returncode == 0, done.stderr
    total: float = json.loads(done.stdout)["makespan_s"]
    return total
