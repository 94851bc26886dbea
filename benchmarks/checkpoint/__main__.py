"""Measure how long four small models take to save and to resume: `python -m benchmarks.checkpoint`.

Prints its section of docs/lab/reproduction-flowcon-specon.md, and all medians to stderr. It needs
PyTorch; without it, it says so, prints no figure and exits with 2.

    python -m benchmarks.checkpoint [--runs 3]
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.checkpoint.measure import MODELS, Costs, measure, section, starts, table, why_not


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    reason = why_not()
    if reason is not None:
        print(f"nothing is measured: {reason}", file=sys.stderr)
        return 2
    found: list[Costs] = []
    try:
        for model in MODELS:
            found += measure(model, options.runs)
    except RuntimeError as error:
        print(f"nothing is measured: {error}", file=sys.stderr)
        return 1
    print(*table(found), sep="\n", file=sys.stderr)
    print(section(found, options.runs, starts(2 * options.runs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
