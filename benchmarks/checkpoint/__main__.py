"""Measure how long four small models take to save and to resume: `python -m benchmarks.checkpoint`.

Prints a table, and writes its section of docs/lab/reproduction-flowcon-specon.md. It needs PyTorch;
without it, it says so, prints no figure and exits with 2.

    python -m benchmarks.checkpoint [--runs 3] [--stdout]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.checkpoint.measure import MODELS, Costs, measure, section, starts, table, why_not
from benchmarks.sections import put_section
from tests.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "lab" / "reproduction-flowcon-specon.md"
TITLE = "FlowCon and SpeCon beside their published figures"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stdout", action="store_true", help="print the section, write nothing")
    options = parser.parse_args(words)
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
    print(table(found))
    text = section(found, options.runs, starts(2 * options.runs))
    if options.stdout:
        print(text)
    else:
        put_section(PAGE, "checkpoint", text, TITLE)
        print(f"{PAGE}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
