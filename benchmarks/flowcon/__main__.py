"""FlowCon's published experiments: `python -m benchmarks.flowcon [--seeds 12]`.

Prints the section on FlowCon of docs/lab/reproduction-flowcon-specon.md. `--real` runs three NumPy
jobs under one CPU quota of this server instead, and prints what they took (root, control groups).
"""

from __future__ import annotations

import argparse

from benchmarks.flowcon.jobs import first_parts
from benchmarks.flowcon.page import Beside, section
from benchmarks.flowcon.rows import (
    contended_makespans,
    five_jobs,
    last_whole,
    many_jobs,
    three_jobs,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--real", action="store_true", help="run jobs on this server's CPUs")
    parser.add_argument("--scale", type=float, default=0.5, help="--real: parts of the work")
    options = parser.parse_args()
    if options.real:
        from benchmarks.flowcon.real import run

        run(options.scale)
        return
    seeds = range(options.seeds)
    few, many = three_jobs(seeds), five_jobs(seeds) + many_jobs(seeds)
    beside = Beside(contended_makespans(seeds), first_parts()[0], last_whole(0.05, 30.0))
    print(section(few, many, beside, options.seeds))


if __name__ == "__main__":
    main()
