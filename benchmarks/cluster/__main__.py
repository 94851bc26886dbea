"""radrm under a real Slurm of three nodes: `make bench-slurm` (root, about half an hour)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from rich.console import Console

from benchmarks.cluster import dead_node, kills, latency, requests, trace
from benchmarks.cluster.place import running_cluster
from benchmarks.run import table
from benchmarks.table import Row
from tests.slurm.cluster import MISSING, Cluster, installed

ON_A_CLUSTER: dict[str, Callable[[Cluster], list[Row]]] = {
    "latency": latency.measure,
    "kills": kills.measure,
    "node": dead_node.measure,
}
"""The parts that run on a cluster of their own whose GPUs' clock is real."""

PARTS = (*ON_A_CLUSTER, "requests", "trace")


def measured(part: str) -> list[Row]:
    """The rows of one part."""
    if part == "trace":
        return trace.measure()
    if part == "requests":
        with running_cluster(nodes=requests.NODES) as cluster:
            return requests.measure(cluster)
    with running_cluster() as cluster:
        return ON_A_CLUSTER[part](cluster)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    if not installed():
        print(f"nothing is measured: {MISSING}, or this is not root", file=sys.stderr)
        return 1
    console = Console()
    rows = []
    for part in parts:
        with console.status(f"{part} ..."):
            rows += measured(part)
    console.print(table(rows))
    return 0 if all(row.fine for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
