"""SpeCon's published experiments in the simulator: `python -m benchmarks.specon`.

Writes the section on SpeCon of docs/lab/reproduction-flowcon-specon.md. Some minutes.

    python -m benchmarks.specon [--seeds 12] [--stdout]
"""

from __future__ import annotations

import argparse

from benchmarks.sections import put_section
from benchmarks.specon.page import section
from benchmarks.specon.rows import ROWS, from_others, measured
from tests.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "lab" / "reproduction-flowcon-specon.md"
TITLE = "FlowCon and SpeCon beside their published figures"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--stdout", action="store_true", help="print the section, write nothing")
    options = parser.parse_args()
    seeds = range(options.seeds)
    found = [measured(row, seeds) for row in ROWS]
    text = section(found, from_others(seeds), options.seeds)
    if options.stdout:
        print(text)
    else:
        put_section(PAGE, "specon", text, TITLE)
        print(f"{PAGE}: written")


if __name__ == "__main__":
    main()
