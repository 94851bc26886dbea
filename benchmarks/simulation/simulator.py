"""The simulator: a trace of 90 jobs from a cold start, how its cost grows, a cluster's trace.

    python -m benchmarks.simulation.simulator              all but the cluster
    python -m benchmarks.simulation.simulator --cluster    82,247 jobs on 64 servers of four GPUs
    python -m benchmarks.simulation.simulator --daemon     twenty jobs through the daemon and here

The jobs are drawn here; the cluster's times, durations and GPUs are those of the Philly trace
where it is at hand (jobs on more than four GPUs take four), else drawn too.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime

from benchmarks.table import Row, shown
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.servers import simulate_lot, simulate_servers
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from tests.paths import REPOSITORY, SHARED_DATA

PHILLY = SHARED_DATA / "public" / "pollux_philly.csv"
SERVER = "sim:4xA100-40GB"
LIMIT_S = 0.3
LIMIT_GROWTH = 1.5
LIMIT_CLUSTER_S = 120.0
LIMIT_CLUSTER_MIB = 1024.0
CLUSTER_JOBS, CLUSTER_SERVERS = 82_247, 64
_COLD = "from benchmarks.simulation.simulator import one_seed; one_seed()"


def drawn(count: int, per_hour: float = 12.0, seed: int = 0) -> list[TraceJob]:
    """So many jobs at this rate; at 12 an hour four GPUs have a queue now and then."""
    rng = random.Random(seed)
    now_s, jobs = 0.0, []
    for number in range(count):
        now_s += rng.expovariate(per_hour / 3600)
        jobs.append(
            TraceJob(
                submit_s=now_s,
                name=f"job{number}",
                gpus=rng.choice((1, 1, 1, 1, 1, 1, 1, 2)),
                duration_s=60 + rng.expovariate(1 / 900),
                memory_mib=rng.uniform(1500, 24000),
                smact=rng.choice((0.07, 0.3, 0.45, 0.62, 0.85)),
                batch_size=rng.choice((32, 64, 128)),
            )
        )
    return jobs


def one_seed() -> None:
    simulate(drawn(90, per_hour=26), Scenario(devices=parse(SERVER)))


def measure(tries: int = 5, counts: Sequence[int] = (1_000, 10_000, 100_000)) -> list[Row]:
    cold_s = _cold_s(tries)
    costs = [_per_job_s(count) for count in counts]
    told = " / ".join(f"{cost * 1e3:.2f}" for cost in costs)
    at = " / ".join(f"{count:,}" for count in counts)
    return [
        Row("90 jobs simulated from a cold start", cold_s, LIMIT_S, "s", "imports included"),
        Row(
            f"a simulated job, {counts[-1]:,} beside {counts[0]:,}",
            costs[-1] / costs[0],
            LIMIT_GROWTH,
            "x",
            f"{told} ms at {at}",
        ),
    ]


def _cold_s(tries: int) -> float:
    """The best of a few: seconds of processor time, less those of an interpreter alone."""

    def spent(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # What the benchmark itself imports is no part of the simulator.
    others = "import argparse, csv, resource, statistics, subprocess, concurrent.futures.process"
    alone = min(spent(others) for _ in range(tries))
    return min(spent(_COLD) for _ in range(tries)) - alone


def _per_job_s(count: int) -> float:
    jobs = drawn(count)
    begun = time.process_time()
    simulate(jobs, Scenario(devices=parse(SERVER)))
    return (time.process_time() - begun) / count


# ------------------------------------------------------------------ a cluster


def cluster_jobs(count: int = CLUSTER_JOBS) -> list[TraceJob]:
    if not PHILLY.exists():
        return drawn(count, per_hour=12.0 * CLUSTER_SERVERS)
    rng = random.Random(0)
    with PHILLY.open(encoding="utf-8") as lines:
        found = [
            (
                datetime.fromisoformat(r["timestamp"]),
                float(r["duration"]),
                int(r["num_gpus"]),
                r["cluster"],
            )
            for r in csv.DictReader(lines)
        ]
    found.sort()
    return [
        TraceJob(
            submit_s=(moment - found[0][0]).total_seconds(),
            name=f"job{number}",
            gpus=min(4, max(1, gpus)),
            duration_s=max(30.0, duration_s),
            memory_mib=rng.uniform(2000, 24000),
            smact=rng.choice((0.1, 0.3, 0.5, 0.7, 0.9)),
            user=user,
        )
        for number, (moment, duration_s, gpus, user) in enumerate(found[:count])
    ]


def cluster(processes: int) -> list[Row]:
    jobs = cluster_jobs()
    setting = Scenario(devices=parse(SERVER))
    begun = time.monotonic()
    if processes == 1:
        run = simulate_servers(jobs, setting, CLUSTER_SERVERS)
    else:
        with ProcessPoolExecutor(processes) as pool:
            run = simulate_servers(
                jobs, setting, CLUSTER_SERVERS, lambda lots: pool.map(simulate_lot, lots)
            )
    took_s = time.monotonic() - begun
    spent = resource.getrusage(resource.RUSAGE_CHILDREN if processes > 1 else resource.RUSAGE_SELF)
    spent_s = spent.ru_utime + spent.ru_stime
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    # The children's figure is that of the largest one.
    used_kib = [resource.getrusage(of).ru_maxrss for of in who]
    mib = (used_kib[0] + processes * used_kib[1] * (processes > 1)) / 1024
    done = sum(each.ended_s is not None for each in run.jobs)
    what = f"{len(jobs):,} jobs on {CLUSTER_SERVERS} servers, {processes} process(es)"
    return [
        Row(
            what,
            took_s,
            LIMIT_CLUSTER_S,
            "s",
            f"{done:,} completed; {spent_s:.0f} s of processor time",
        ),
        Row("the same, memory", mib, LIMIT_CLUSTER_MIB, "MiB"),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.simulator")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args(argv)
    if args.daemon:
        from benchmarks.simulation.simulator_daemon import compare

        rows = compare()
    else:
        rows = cluster(args.processes) if args.cluster else measure()
    return shown(rows)


if __name__ == "__main__":
    sys.exit(main())
