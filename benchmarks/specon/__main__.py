"""SpeCon's published experiments in the simulator: `python -m benchmarks.specon`.

Prints the section on SpeCon of docs/lab/reproduction-flowcon-specon.md. Some minutes.

    python -m benchmarks.specon [--seeds 12]
"""

from __future__ import annotations

import argparse

from benchmarks.specon.page import section
from benchmarks.specon.rows import ROWS, from_others, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    options = parser.parse_args()
    seeds = range(options.seeds)
    found = [measured(row, seeds) for row in ROWS]
    print(section(found, from_others(seeds), options.seeds))


if __name__ == "__main__":
    main()
