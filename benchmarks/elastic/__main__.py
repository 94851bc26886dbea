"""DLRover and NEARCHUS beside their published figures: `python -m benchmarks.elastic`.

    python -m benchmarks.elastic [--seeds 15]
    python -m benchmarks.elastic --real [...]     a real training on simulated GPUs

Prints the section of docs/lab/reproduction-elastic.md.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from statistics import median

from benchmarks.elastic import rows, stepped
from benchmarks.elastic.cluster import IN_PLACE, RESTARTS, Costs
from benchmarks.elastic.gpus import JOBS, LOADS, SIZINGS, all_served
from benchmarks.elastic.models import WIDE_DEEP, X_DEEP_FM, A, B, Cluster
from benchmarks.elastic.page import gpus, page
from benchmarks.elastic.planned import planner_rows
from benchmarks.elastic.shared import WAYS, alone, forty

FEW = 8
"""Seeds of the runs on GPUs: they are the slow ones."""
FEWEST = 5
"""Seeds of forty jobs under `Scheduler.step`."""
HOURS = (1.0, 2.0, 4.0, 8.0)
VARIED: tuple[tuple[str, Cluster, str, Costs], ...] = (
    ("A, Optimus", A, "optimus", RESTARTS),
    ("A, Optimus, in place", A, "optimus", IN_PLACE),
    ("A, Optimus with network", A, "optimus with network", RESTARTS),
    ("B, Optimus", B, "optimus", RESTARTS),
    ("B, Optimus, in place", B, "optimus", IN_PLACE),
)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if "--real" in arguments:
        rest = [each for each in arguments if each != "--real"]
        found: int = import_module("benchmarks.elastic.real").main(rest)
        return found
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic", description=__doc__)
    parser.add_argument("--seeds", type=int, default=15)
    options = parser.parse_args(arguments)
    seeds = range(options.seeds)
    on_a, on_b = (
        {way: [forty(cluster, way, seed) for seed in seeds] for way in WAYS} for cluster in (A, B)
    )
    in_place = [alone(cluster, costs=IN_PLACE) for cluster in (A, B)]
    single = alone(A), alone(B)
    shared = [*rows.one_job(*single, in_place), *rows.forty_jobs(on_a, on_b)]
    planned = planner_rows(
        {job.name: stepped.dlrover(job) for job in (WIDE_DEEP, X_DEEP_FM)},
        [stepped.alone_h(cluster) for cluster in (A, B)],
        single,
        [stepped.forty(A, seed) for seed in seeds[:FEWEST]],
        on_a,
    )
    dlrover, checks = rows.dlrover(), rows.cluster_model()
    medians = {
        name: [
            median(each.sooner(beside) for each in alone(cluster, hours, costs=costs))
            for hours in HOURS
        ]
        for name, cluster, beside, costs in VARIED
    }
    names = [sizing.name for sizing in SIZINGS]
    served = all_served(range(min(options.seeds, FEW)))
    own = gpus(served, names, LOADS, JOBS)
    print(page(dlrover, checks, shared, medians, HOURS, planned, own))
    return 0


if __name__ == "__main__":
    sys.exit(main())
